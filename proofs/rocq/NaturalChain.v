(** A chain of FP8 wgmma in its natural order, and what a chain in any order is relative to.

    Section 5. One instruction: its own exponent's power [W0] = 2^E, an upper bound [W] of it, which
    is what can be read off magnitudes, and its products. A product that is not below 2^-6 W0 has no
    bit below the quantum (wgmma-large-exact); that is a premise here. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import TensorCore.
Import ListNotations.
Open Scope R_scope.

(** What the alignment may take: nothing of a large product, a quantum of a small one. *)
Fixpoint loss W (l : list R) : R :=
  match l with
  | [] => 0
  | x :: l => (if Rlt_dec (Rabs x) (W / 64) then Rmin (Rabs x) (quantum W) else 0) + loss W l
  end.

Definition large_exact W (l : list R) := forall x, In x l -> W / 64 <= Rabs x -> align (quantum W) x = x.

Lemma align_towards_0 : forall q x, 0 < q -> Rabs (align q x - x) <= Rabs x.
Proof.
  assert (P : forall q x, 0 < q -> 0 <= x -> Rabs (align q x - x) <= Rabs x).
  { intros q x Q H. assert (B := align_below q x Q). assert (N := align_near q x Q).
    assert (0 <= align q x).
    { unfold align. apply Rmult_le_pos; [| lra]. rewrite Ztrunc_floor by (apply Rmult_le_pos; [exact H | left; apply Rinv_0_lt_compat; exact Q]).
      apply IZR_le. apply Zfloor_lub. apply Rmult_le_pos; [exact H | left; apply Rinv_0_lt_compat; exact Q]. }
    rewrite (Rabs_right x) in B |- * by lra. rewrite (Rabs_right (align q x)) in B by lra. apply Rabs_le. lra. }
  intros q x Q. destruct (Rle_or_lt 0 x) as [H | H]; [apply P; assumption |].
  assert (O : align q x = - align q (- x)).
  { unfold align. replace (- x / q) with (- (x / q)) by (field; lra). rewrite Ztrunc_opp, opp_IZR. ring. }
  rewrite O. replace (- align q (- x) - x) with (- (align q (- x) - - x)) by ring.
  rewrite Rabs_Ropp, <- (Rabs_Ropp x). apply P; lra.
Qed.

Lemma aligned_loss :
  forall W0 W l, 0 < W0 <= W -> large_exact W0 l ->
  Rabs (TensorCore.total (map (align (quantum W0)) l) - TensorCore.total l) <= loss W l.
Proof.
  intros W0 W l HW. assert (Q0 : 0 < quantum W0) by (unfold quantum; lra).
  assert (Q : quantum W0 <= quantum W) by (unfold quantum; lra).
  induction l as [| x l IH]; intro H; simpl.
  - replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - assert (IH' : Rabs (TensorCore.total (map (align (quantum W0)) l) - TensorCore.total l) <= loss W l).
    { apply IH. intros y I. apply H. right. exact I. }
    assert (X : Rabs (align (quantum W0) x - x) <= (if Rlt_dec (Rabs x) (W / 64) then Rmin (Rabs x) (quantum W) else 0)).
    { destruct (Rlt_dec (Rabs x) (W / 64)) as [S | L].
      - apply Rmin_glb; [apply align_towards_0; exact Q0 |].
        eapply Rle_trans. apply align_near. exact Q0. exact Q.
      - apply Rnot_lt_le in L. rewrite (H x (or_introl eq_refl)) by lra.
        replace (x - x) with 0 by ring. rewrite Rabs_R0. lra. }
    replace (align (quantum W0) x + TensorCore.total (map (align (quantum W0)) l) - (x + TensorCore.total l))
      with ((align (quantum W0) x - x) + (TensorCore.total (map (align (quantum W0)) l) - TensorCore.total l)) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** An instruction: W0, W and its products. *)
Definition instruction := (R * R * list R)%type.

Fixpoint natural_chain c (steps : list instruction) : R :=
  match steps with [] => c | (W0, W, l) :: steps => natural_chain (step (quantum W0) c l) steps end.

Fixpoint every (f : list R -> R) (steps : list instruction) : R :=
  match steps with [] => 0 | (W0, W, l) :: steps => f l + every f steps end.

Fixpoint fits (steps : list instruction) : Prop :=
  match steps with [] => True | (W0, W, l) :: steps => 0 < W0 <= W /\ large_exact W0 l /\ fits steps end.

(** m is the sum of the magnitudes so far. *)
Fixpoint chain_bound m (steps : list instruction) : R :=
  match steps with
  | [] => 0
  | (W0, W, l) :: steps =>
      loss W l + Rmin m (quantum W) + / 8192 * (m + TensorCore.mass l) + chain_bound (m + TensorCore.mass l) steps
  end.

(** wgmma-natural, for any number of instructions, from an accumulator of at most m. *)
Theorem natural_order :
  forall steps c m, fits steps -> Rabs c <= m ->
  Rabs (natural_chain c steps - (c + every TensorCore.total steps)) <= chain_bound m steps.
Proof.
  induction steps as [| [[W0 W] l] steps IH]; intros c m F C; simpl.
  - replace (c - (c + 0)) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct F as (HW & LE & F). assert (Q0 : 0 < quantum W0) by (unfold quantum; lra).
    assert (Q : quantum W0 <= quantum W) by (unfold quantum; lra).
    destruct (one_step W0 c l (proj1 HW)) as (_ & B).
    set (s := step (quantum W0) c l) in *.
    assert (H := IH s (m + TensorCore.mass l) F). assert (B' : Rabs s <= m + TensorCore.mass l) by lra. specialize (H B').
    assert (E : Rabs (s - (c + TensorCore.total l)) <= loss W l + Rmin m (quantum W) + / 8192 * (m + TensorCore.mass l)).
    { unfold s, step. simpl map. change (TensorCore.total (align (quantum W0) c :: map (align (quantum W0)) l))
        with (align (quantum W0) c + TensorCore.total (map (align (quantum W0)) l)).
      set (t := align (quantum W0) c + TensorCore.total (map (align (quantum W0)) l)).
      assert (K := cut_near t). assert (A := aligned_loss W0 W l HW LE).
      assert (D : Rabs (align (quantum W0) c - c) <= Rmin m (quantum W)).
      { apply Rmin_glb; [eapply Rle_trans; [apply align_towards_0; exact Q0 | exact C] |].
        eapply Rle_trans. apply align_near. exact Q0. exact Q. }
      assert (T : Rabs t <= m + TensorCore.mass l).
      { destruct (aligned_total (quantum W0) (c :: l) Q0) as (_ & G). simpl in G.
        change (Rabs t <= Rabs c + TensorCore.mass l) in G. lra. }
      replace (cut t - (c + TensorCore.total l))
        with ((cut t - t) + (align (quantum W0) c - c) + (TensorCore.total (map (align (quantum W0)) l) - TensorCore.total l))
        by (unfold t; ring).
      eapply Rle_trans. apply Rabs_triang.
      assert (Z := Rabs_triang (cut t - t) (align (quantum W0) c - c)). lra. }
    replace (natural_chain s steps - (c + (TensorCore.total l + every TensorCore.total steps)))
      with ((natural_chain s steps - (s + every TensorCore.total steps)) + (s - (c + TensorCore.total l))) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** The order-free bound is relative to X Y, with X and Y the largest norms of all rows. That they
    are at least 2^-6 of every row's own scale is not true of a row of subnormal codes alone: it is
    of the block that gave the scale, whose largest code is at least 2^-6, or the scale is the
    least there is and X is not taken below 2^-6 of it. [x], [y] are codes' magnitudes, [s], [t]
    their scales, [ex], [ey] the powers of two of their exponents, not below 2^-6. *)
Theorem least_norm :
  forall x y s t ex ey X Y least,
  0 < s -> 0 < t -> 0 <= least -> 0 <= x -> 0 <= y ->
  ex <= Rmax x (/ 64) -> ey <= Rmax y (/ 64) -> 0 < ex -> 0 < ey ->
  s * x <= X -> t * y <= Y ->
  ((exists top, / 64 <= top /\ s * top <= X) \/ (s <= least /\ / 64 * least <= X)) ->
  ((exists top, / 64 <= top /\ t * top <= Y) \/ (t <= least /\ / 64 * least <= Y)) ->
  (s * ex) * (t * ey) <= X * Y.
Proof.
  assert (One : forall x s ex X least, 0 < s -> 0 <= least -> ex <= Rmax x (/ 64) -> s * x <= X ->
    ((exists top, / 64 <= top /\ s * top <= X) \/ (s <= least /\ / 64 * least <= X)) -> s * ex <= X).
  { intros x s ex X least Hs Hl He Hx H.
    assert (S : s * / 64 <= X).
    { destruct H as [(top & T & L) | (L & M)].
      - assert (s * / 64 <= s * top) by (apply Rmult_le_compat_l; lra). lra.
      - assert (s * / 64 <= least * / 64) by (apply Rmult_le_compat_r; lra). lra. }
    assert (s * ex <= s * Rmax x (/ 64)) by (apply Rmult_le_compat_l; lra).
    unfold Rmax in *. destruct Rle_dec; lra. }
  intros x y s t ex ey X Y least Hs Ht Hl Hx Hy Ex Ey Px Py SX TY HX HY.
  assert (A := One x s ex X least Hs Hl Ex SX HX). assert (B := One y t ey Y least Ht Hl Ey TY HY).
  apply Rmult_le_compat; try assumption; left; apply Rmult_lt_0_compat; assumption.
Qed.

(** wgmma-rho-chained: an accumulator that is a step's result has 14 bits, so it loses nothing where
    its exponent is the largest; elsewhere a product has that exponent and loses nothing. *)
Definition one_is_exact q c (l : list R) := align q c = c \/ exists x, In x l /\ align q x = x.

Theorem aligned_carried :
  forall q c l, 0 < q -> one_is_exact q c l ->
  Rabs (align q c + TensorCore.total (map (align q) l) - (c + TensorCore.total l)) <= INR (length l) * q.
Proof.
  intros q c l Q H.
  assert (All : forall l, Rabs (TensorCore.total (map (align q) l) - TensorCore.total l) <= INR (length l) * q).
  { intro m. destruct (aligned_total q m Q) as (E & _). exact E. }
  destruct H as [C | (x & I & X)].
  - rewrite C. replace (c + TensorCore.total (map (align q) l) - (c + TensorCore.total l))
      with (TensorCore.total (map (align q) l) - TensorCore.total l) by ring. apply All.
  - apply in_split in I. destruct I as (l1 & l2 & ->).
    assert (S : forall f (a b : list R), TensorCore.total (map f (a ++ b)) = TensorCore.total (map f a) + TensorCore.total (map f b)).
    { intros f a b. induction a as [| y a IH]; simpl; [ring | rewrite IH; ring]. }
    assert (S' : forall a b : list R, TensorCore.total (a ++ b) = TensorCore.total a + TensorCore.total b).
    { intros a b. induction a as [| y a IH]; simpl; [ring | rewrite IH; ring]. }
    rewrite S, S', app_length. simpl map. simpl length. simpl TensorCore.total. rewrite plus_INR, S_INR, X.
    assert (E1 := All l1). assert (E2 := All l2). assert (E := align_near q c Q).
    match goal with |- Rabs ?y <= _ => replace y with ((align q c - c) + (TensorCore.total (map (align q) l1) - TensorCore.total l1) + (TensorCore.total (map (align q) l2) - TensorCore.total l2)) by ring end.
    eapply Rle_trans. apply Rabs_triang. eapply Rle_trans. apply Rplus_le_compat_r. apply Rabs_triang. lra.
Qed.

Fixpoint carried_fits W c (steps : list instruction) : Prop :=
  match steps with
  | [] => True
  | (W0, W1, l) :: steps => 0 < W0 <= W /\ one_is_exact (quantum W0) c l /\ carried_fits W (step (quantum W0) c l) steps
  end.

Fixpoint at_most n (steps : list instruction) : Prop :=
  match steps with [] => True | (W0, W1, l) :: steps => INR (length l) <= n /\ at_most n steps end.

(** K instructions of at most n products, in any order of channels, from 0: no exponent's power of
    two above W, no partial sum above the products' magnitudes. *)
Theorem carried_chain :
  forall W n steps c, 0 < W -> carried_fits W c steps -> at_most n steps ->
  let K := INR (length steps) in
  Rabs (natural_chain c steps - (c + every TensorCore.total steps)) <=
    / 8192 * (n * K) * W + / 8192 * K * (Rabs c + every TensorCore.mass steps).
Proof.
  intros W n steps c HW. revert c. induction steps as [| [[W0 W1] l] steps IH]; intros c F N K.
  - unfold K. simpl. replace (c - (c + 0)) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct F as (H0 & C & F). destruct N as (L & N). unfold K. change (length ((W0, W1, l) :: steps)) with (S (length steps)).
    rewrite S_INR. assert (Q0 : 0 < quantum W0) by (unfold quantum; lra). assert (Q : quantum W0 <= W / 8192) by (unfold quantum; lra).
    simpl natural_chain. simpl every. set (s := step (quantum W0) c l) in *.
    destruct (one_step W0 c l (proj1 H0)) as (_ & B). fold s in B.
    specialize (IH s F N). simpl in IH. set (k := INR (length steps)) in *. assert (Hk : 0 <= k) by apply pos_INR.
    assert (Hl : 0 <= INR (length l)) by apply pos_INR.
    assert (E : Rabs (s - (c + TensorCore.total l)) <= / 8192 * n * W + / 8192 * (Rabs c + TensorCore.mass l)).
    { unfold s, step. simpl map. change (TensorCore.total (align (quantum W0) c :: map (align (quantum W0)) l))
        with (align (quantum W0) c + TensorCore.total (map (align (quantum W0)) l)).
      set (t := align (quantum W0) c + TensorCore.total (map (align (quantum W0)) l)).
      assert (A := aligned_carried (quantum W0) c l Q0 C). fold t in A. assert (G := cut_near t).
      assert (T : Rabs t <= Rabs c + TensorCore.mass l).
      { destruct (aligned_total (quantum W0) (c :: l) Q0) as (_ & Z). exact Z. }
      assert (X : INR (length l) * quantum W0 <= / 8192 * n * W).
      { apply Rle_trans with (n * (W / 8192)); [apply Rmult_le_compat; lra | unfold Rdiv; lra]. }
      replace (cut t - (c + TensorCore.total l)) with ((cut t - t) + (t - (c + TensorCore.total l))) by ring.
      eapply Rle_trans. apply Rabs_triang. lra. }
    assert (M : 0 <= every TensorCore.mass steps).
    { clear. induction steps as [| [[W0 W1] l] steps IH]; simpl; [lra |].
      assert (P : 0 <= TensorCore.mass l) by (induction l as [| x l J]; simpl; [lra | assert (Y := Rabs_pos x); lra]). lra. }
    assert (X : / 8192 * k * (Rabs s + every TensorCore.mass steps) <= / 8192 * k * (Rabs c + (TensorCore.mass l + every TensorCore.mass steps))).
    { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | lra]. }
    replace (natural_chain s steps - (c + (TensorCore.total l + every TensorCore.total steps)))
      with ((natural_chain s steps - (s + every TensorCore.total steps)) + (s - (c + TensorCore.total l))) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.
