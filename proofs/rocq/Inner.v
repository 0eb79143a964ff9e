(** Inner products in any order, rounded or fused, with underflow: sum-fma-chain and its kin.

    Section 2. An order of n products is a tree of rounded products, fused multiply-adds and
    additions. It is off by at most n u sum |p d| and n (1 + n u) eta. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32.
Open Scope R_scope.

Inductive order :=
  | Product (p d : R)
  | Fused (t : order) (p d : R)
  | Added (l r : order).

Fixpoint products (t : order) : nat :=
  match t with
  | Product _ _ => 1
  | Fused t _ _ => products t + 1
  | Added l r => products l + products r
  end.

(** The exact inner product. *)
Fixpoint inner (t : order) : R :=
  match t with
  | Product p d => p * d
  | Fused t p d => inner t + p * d
  | Added l r => inner l + inner r
  end.

Fixpoint inner_mass (t : order) : R :=
  match t with
  | Product p d => Rabs (p * d)
  | Fused t p d => inner_mass t + Rabs (p * d)
  | Added l r => inner_mass l + inner_mass r
  end.

(** What the kernel gets. *)
Fixpoint computed (t : order) : R :=
  match t with
  | Product p d => rnd (p * d)
  | Fused t p d => rnd (computed t + p * d)
  | Added l r => rnd (computed l + computed r)
  end.

(** [runs k x m s]: s is what k products with moved terms of sum x and mass m give. *)
Inductive runs : nat -> R -> R -> R -> Prop :=
  | run_product : forall x s, Rabs (s - x) <= v * Rabs x -> runs 1 x (Rabs x) s
  | run_fused : forall k x m s y s',
      runs k x m s -> Rabs (s' - (s + y)) <= v * Rabs (s + y) -> Rabs (s' - (s + y)) <= Rabs y ->
      runs (k + 1) (x + y) (m + Rabs y) s'
  | run_added : forall k x m s l y n t s',
      runs k x m s -> runs l y n t ->
      Rabs (s' - (s + t)) <= v * Rabs (s + t) ->
      Rabs (s' - (s + t)) <= Rabs s -> Rabs (s' - (s + t)) <= Rabs t ->
      runs (k + l) (x + y) (m + n) s'.

Definition c := v + v * v.
Definition w (k : nat) := (INR k - 1) * c + v.

Lemma c_positive : 0 < c.
Proof. unfold c. assert (V := v_positive). assert (0 < v * v) by (apply Rmult_lt_0_compat; lra). lra. Qed.

Lemma runs_facts :
  forall k x m s, runs k x m s -> 1 <= INR k /\ 0 <= m /\ Rabs x <= m.
Proof.
  intros k x m s H. induction H as [x s E | k x m s y s' H IH E1 E2 | k x m s l y n t s' H IH G IG E1 E2 E3].
  - simpl. repeat split; try lra. apply Rabs_pos.
  - destruct IH as (K & M & X). rewrite plus_INR. simpl. assert (Y := Rabs_pos y).
    repeat split; try lra. eapply Rle_trans. apply Rabs_triang. lra.
  - destruct IH as (K & M & X). destruct IG as (L & N & Y). rewrite plus_INR.
    repeat split; try lra. eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** The new error of a fused step. *)
Lemma fused_step :
  forall k m y d, 1 <= k -> 0 <= m -> 0 <= y ->
  d <= v * (m + ((k - 1) * c + v) * m + y) -> d <= y ->
  d <= c * m + (k * c + v) * y.
Proof.
  intros k m y d K M Y D1 D2.
  assert (V := v_positive). assert (V1 := v_below_1). assert (C := c_positive).
  assert (CV : c = v + v * v) by reflexivity.
  assert (0 <= k * c * y) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]).
  assert (0 <= v * y) by (apply Rmult_le_pos; lra).
  assert (0 <= v * v * m) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]).
  destruct (Rle_or_lt y (v * m)) as [S | L].
  - replace (c * m) with (v * m + v * v * m) by (rewrite CV; ring).
    replace ((k * c + v) * y) with (k * c * y + v * y) by ring. lra.
  - assert ((k - 1) * c * (v * m) <= (k - 1) * c * y).
    { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | lra]. }
    assert (0 <= c * y) by (apply Rmult_le_pos; lra).
    replace (v * (m + ((k - 1) * c + v) * m + y))
      with (v * m + v * v * m + (k - 1) * c * (v * m) + v * y) in D1 by ring.
    replace (c * m) with (v * m + v * v * m) by (rewrite CV; ring).
    replace ((k * c + v) * y) with ((k - 1) * c * y + c * y + v * y) by ring. lra.
Qed.

(** The new error of an addition. *)
Lemma added_step :
  forall k l m n d, 1 <= k -> 1 <= l -> 0 <= m -> 0 <= n ->
  d <= v * (m + ((k - 1) * c + v) * m + (n + ((l - 1) * c + v) * n)) ->
  d <= m + ((k - 1) * c + v) * m -> d <= n + ((l - 1) * c + v) * n ->
  d <= l * c * m + k * c * n.
Proof.
  intros k l m n d K L M N D D1 D2.
  assert (V := v_positive). assert (V1 := v_below_1). assert (C := c_positive).
  assert (CV : c = v + v * v) by reflexivity.
  assert (A1 : 0 <= (k - 1) * c) by (apply Rmult_le_pos; lra).
  assert (A2 : 0 <= (l - 1) * c) by (apply Rmult_le_pos; lra).
  assert (0 <= c * m) by (apply Rmult_le_pos; lra).
  assert (0 <= c * n) by (apply Rmult_le_pos; lra).
  assert (0 <= (k - 1) * c * n) by (apply Rmult_le_pos; lra).
  assert (0 <= (l - 1) * c * m) by (apply Rmult_le_pos; lra).
  replace (l * c * m + k * c * n)
    with (c * m + (l - 1) * c * m + c * n + (k - 1) * c * n) by ring.
  destruct (Rle_or_lt n (v * m)) as [S2 | L2].
  - assert (n + v * n <= c * m).
    { replace (c * m) with (v * m + v * (v * m)) by (rewrite CV; ring).
      assert (v * n <= v * (v * m)) by (apply Rmult_le_compat_l; lra). lra. }
    assert ((l - 1) * c * n <= (l - 1) * c * m).
    { apply Rmult_le_compat_l; [lra |]. assert (v * m <= 1 * m) by (apply Rmult_le_compat_r; lra). lra. }
    replace (n + ((l - 1) * c + v) * n) with (n + v * n + (l - 1) * c * n) in D2 by ring. lra.
  - destruct (Rle_or_lt m (v * n)) as [S1 | L1].
    + assert (m + v * m <= c * n).
      { replace (c * n) with (v * n + v * (v * n)) by (rewrite CV; ring).
        assert (v * m <= v * (v * n)) by (apply Rmult_le_compat_l; lra). lra. }
      assert ((k - 1) * c * m <= (k - 1) * c * n).
      { apply Rmult_le_compat_l; [lra |]. assert (v * n <= 1 * n) by (apply Rmult_le_compat_r; lra). lra. }
      replace (m + ((k - 1) * c + v) * m) with (m + v * m + (k - 1) * c * m) in D1 by ring. lra.
    + assert ((k - 1) * c * (v * m) <= (k - 1) * c * n) by (apply Rmult_le_compat_l; lra).
      assert ((l - 1) * c * (v * n) <= (l - 1) * c * m) by (apply Rmult_le_compat_l; lra).
      replace (v * (m + ((k - 1) * c + v) * m + (n + ((l - 1) * c + v) * n)))
        with (c * m + (k - 1) * c * (v * m) + (c * n + (l - 1) * c * (v * n))) in D
        by (rewrite CV; ring).
      lra.
Qed.

Lemma runs_error :
  forall k x m s, runs k x m s -> Rabs (s - x) <= w k * m.
Proof.
  intros k x m s H. induction H as [x s E | k x m s y s' H IH E1 E2 | k x m s l y n t s' H IH G IG E1 E2 E3].
  - unfold w. simpl. replace ((1 - 1) * c + v) with v by ring. exact E.
  - destruct (runs_facts _ _ _ _ H) as (K & M & X). unfold w in *. rewrite plus_INR. simpl.
    assert (Y := Rabs_pos y).
    assert (Sb : Rabs s <= m + ((INR k - 1) * c + v) * m).
    { replace s with ((s - x) + x) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    assert (D : Rabs (s' - (s + y)) <= c * m + (INR k * c + v) * Rabs y).
    { apply fused_step; try assumption. eapply Rle_trans. exact E1.
      apply Rmult_le_compat_l; [assert (V := v_positive); lra |].
      eapply Rle_trans. apply Rabs_triang. lra. }
    replace (s' - (x + y)) with ((s' - (s + y)) + (s - x)) by ring.
    eapply Rle_trans. apply Rabs_triang.
    replace (((INR k + 1 - 1) * c + v) * (m + Rabs y))
      with (c * m + (INR k * c + v) * Rabs y + ((INR k - 1) * c + v) * m) by ring. lra.
  - destruct (runs_facts _ _ _ _ H) as (K & M & X). destruct (runs_facts _ _ _ _ G) as (L & N & Y).
    unfold w in *. rewrite plus_INR.
    assert (Sb : Rabs s <= m + ((INR k - 1) * c + v) * m).
    { replace s with ((s - x) + x) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    assert (Tb : Rabs t <= n + ((INR l - 1) * c + v) * n).
    { replace t with ((t - y) + y) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    assert (D : Rabs (s' - (s + t)) <= INR l * c * m + INR k * c * n).
    { apply added_step; try assumption; try lra. eapply Rle_trans. exact E1.
      apply Rmult_le_compat_l; [assert (V := v_positive); lra |].
      eapply Rle_trans. apply Rabs_triang. lra. }
    replace (s' - (x + y)) with ((s' - (s + t)) + (s - x) + (t - y)) by ring.
    eapply Rle_trans. apply Rabs_triang.
    assert (Z := Rabs_triang (s' - (s + t)) (s - x)).
    replace (((INR k + INR l - 1) * c + v) * (m + n))
      with ((INR l * c * m + INR k * c * n) + ((INR k - 1) * c + v) * m + ((INR l - 1) * c + v) * n)
      by ring. lra.
Qed.

Lemma computed_format : forall t, binary32 (computed t).
Proof. destruct t; simpl; apply rnd_format. Qed.

(** Every order runs on terms that underflow moved by at most eta each. *)
Lemma order_runs :
  forall t, exists x m, runs (products t) x m (computed t) /\
  Rabs (x - inner t) <= INR (products t) * eta /\ m <= inner_mass t + INR (products t) * eta.
Proof.
  induction t as [p d | t IH p d | l IHl r IHr]; simpl.
  - destruct (rnd_moved (p * d)) as (e & He & Hr & _).
    exists (p * d + e), (Rabs (p * d + e)). split; [apply run_product; exact Hr |].
    split.
    + replace (p * d + e - p * d) with e by ring. lra.
    + eapply Rle_trans. apply Rabs_triang. lra.
  - destruct IH as (x & m & R & X & M).
    destruct (rnd_moved (computed t + p * d)) as (e & He & Hr & Hz).
    exists (x + (p * d + e)), (m + Rabs (p * d + e)). split; [| split].
    + apply run_fused with (computed t); [exact R | |].
      * rewrite <- Rplus_assoc. exact Hr.
      * destruct Hz as [Z | Z].
        -- rewrite Z, Rplus_0_r. apply rnd_candidate. apply computed_format.
        -- rewrite Z. replace (computed t + p * d + e - (computed t + (p * d + e))) with 0 by ring.
           rewrite Rabs_R0. apply Rabs_pos.
    + rewrite plus_INR. simpl.
      replace (x + (p * d + e) - (inner t + p * d)) with ((x - inner t) + e) by ring.
      eapply Rle_trans. apply Rabs_triang. lra.
    + rewrite plus_INR. simpl. assert (T := Rabs_triang (p * d) e). lra.
  - destruct IHl as (x & m & R & X & M). destruct IHr as (y & n & S & Y & N).
    exists (x + y), (m + n). split; [| split].
    + apply run_added with (computed l) (computed r); [exact R | exact S | | |].
      * apply rnd_plus_relative; apply computed_format.
      * rewrite (Rplus_comm (computed l)). apply rnd_candidate. apply computed_format.
      * apply rnd_candidate. apply computed_format.
    + rewrite plus_INR.
      replace (x + y - (inner l + inner r)) with ((x - inner l) + (y - inner r)) by ring.
      eapply Rle_trans. apply Rabs_triang. lra.
    + rewrite plus_INR. lra.
Qed.

Lemma w_below : forall k, (1 <= k)%nat -> w k <= INR k * u.
Proof.
  intros k K. unfold w, c. apply le_INR in K. simpl in K.
  assert (Q := v_squared). assert (P := v_below_u).
  assert ((INR k - 1) * (v + v * v) <= (INR k - 1) * u) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma products_positive : forall t, (1 <= products t)%nat.
Proof. induction t; simpl; lia. Qed.

(** Any order of n products: n u sum |p d| + n (1 + n u) eta. *)
Theorem inner_any_order :
  forall t, let n := INR (products t) in
  Rabs (computed t - inner t) <= n * u * inner_mass t + n * (1 + n * u) * eta.
Proof.
  intros t n.
  destruct (order_runs t) as (x & m & R & X & M).
  assert (E := runs_error _ _ _ _ R). assert (W := w_below _ (products_positive t)). fold n in W, X, M.
  destruct (runs_facts _ _ _ _ R) as (K & M0 & _). fold n in K.
  assert (Rabs (computed t - x) <= n * u * m).
  { eapply Rle_trans. exact E. apply Rmult_le_compat_r; assumption. }
  assert (n * u * m <= n * u * (inner_mass t + n * eta)).
  { apply Rmult_le_compat_l; [| exact M]. apply Rmult_le_pos; [lra | assert (U := u_positive); lra]. }
  replace (computed t - inner t) with ((computed t - x) + (x - inner t)) by ring.
  eapply Rle_trans. apply Rabs_triang.
  replace (n * u * inner_mass t + n * (1 + n * u) * eta)
    with (n * u * (inner_mass t + n * eta) + n * eta) by ring. lra.
Qed.
