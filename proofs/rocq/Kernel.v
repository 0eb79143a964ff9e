(** A row as a kernel makes it: sums and dots in any order, given by what they are of.

    Sections 1 and 2. [sum_of n x y]: y is the sum of x_0, ..., x_(n-1) in some order, every addition
    rounded. [dot_of n a b y]: the same of their products, each rounded or fused. The order is any
    tree of any permutation. *)
Require Import Reals Lra Lia List Permutation.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner Rows Coded Rounded Ledger Rounding Casting.
Import ListNotations.
Open Scope R_scope.

Definition numbers {T : Type} n (f : nat -> T) := map f (seq 0 n).

Fixpoint terms (t : tree) : list R :=
  match t with Leaf x => [x] | Node l r => terms l ++ terms r end.

Definition sum_of n x y := exists t, Permutation (terms t) (numbers n x) /\ y = sum t.

Definition dot_of n (a b : nat -> R) y :=
  exists t, Permutation (keys t) (numbers n (fun k => (a k, b k))) /\ y = computed t.

Lemma Sum_constant : forall n c, Sum n (fun _ => c) = INR n * c.
Proof. induction n as [| n IH]; intro c; [simpl; ring |]. rewrite S_INR. simpl. rewrite IH. ring. Qed.

(** The largest of n numbers that are not negative. *)
Fixpoint Largest n f := match n with O => 0 | S n => Rmax (Largest n f) (f n) end.

Lemma Largest_is : forall n f j, (j < n)%nat -> f j <= Largest n f.
Proof.
  induction n as [| n IH]; intros f j J; [lia |]. simpl. destruct (Nat.eq_dec j n) as [-> | N]; [apply Rmax_r |].
  eapply Rle_trans; [apply IH; lia | apply Rmax_l].
Qed.

Lemma Largest_positive : forall n f, 0 <= Largest n f.
Proof. induction n as [| n IH]; intro f; simpl; [lra |]. eapply Rle_trans; [apply IH | apply Rmax_l]. Qed.

(** Sums of lists do not depend on their order. *)
Definition added (l : list R) := fold_right Rplus 0 l.

Lemma added_app : forall l r, added (l ++ r) = added l + added r.
Proof. unfold added. induction l as [| x l IH]; intro r; simpl; [ring | rewrite IH; ring]. Qed.

Lemma added_permutation : forall l r, Permutation l r -> added l = added r.
Proof. unfold added. intros l r H. induction H; simpl; lra. Qed.

Lemma added_numbers : forall n f, added (numbers n f) = Sum n f.
Proof.
  unfold numbers. induction n as [| n IH]; intro f; [reflexivity |].
  rewrite seq_S, map_app, added_app, IH. simpl. unfold added. simpl. ring.
Qed.

Lemma added_of : forall n (T : Type) (f : nat -> T) (g : T -> R) l,
  Permutation l (numbers n f) -> added (map g l) = Sum n (fun k => g (f k)).
Proof.
  intros n T f g l H. rewrite (added_permutation _ _ (Permutation_map g H)).
  unfold numbers. rewrite map_map. apply (added_numbers n (fun k => g (f k))).
Qed.

Lemma length_numbers : forall n (T : Type) (f : nat -> T) l, Permutation l (numbers n f) -> length l = n.
Proof. intros n T f l H. rewrite (Permutation_length H). unfold numbers. rewrite map_length. apply seq_length. Qed.

Lemma in_numbers : forall n (T : Type) (f : nat -> T) l x, Permutation l (numbers n f) -> In x l ->
  exists k, (k < n)%nat /\ x = f k.
Proof.
  intros n T f l x H I. apply (Permutation_in x H) in I. unfold numbers in I. apply in_map_iff in I.
  destruct I as (k & <- & K). exists k. split; [apply in_seq in K; lia | reflexivity].
Qed.

Lemma total_terms : forall t, total t = added (terms t) /\ mass t = added (map Rabs (terms t)) /\ leaves t = length (terms t).
Proof.
  induction t as [x | l (A & B & C) r (D & E & F)]; simpl.
  - unfold added. simpl. repeat split; ring.
  - rewrite map_app, !added_app, app_length. repeat split; congruence.
Qed.

Lemma format_terms : forall t, (forall x, In x (terms t) -> binary32 x) -> terms_in_format t.
Proof.
  induction t as [x | l IHl r IHr]; simpl; intro H; [apply H; left; reflexivity |].
  split; [apply IHl | apply IHr]; intros x X; apply H; apply in_or_app; tauto.
Qed.

(** A sum of numbers of binary32, none negative. *)
Lemma sum_error : forall n x y, sum_of n x y -> (forall k, (k < n)%nat -> binary32 (x k) /\ 0 <= x k) ->
  1 <= INR n /\ Rabs (y - Sum n x) <= (INR n - 1) * u * Sum n x.
Proof.
  intros n x y (t & T & ->) H. destruct (total_terms t) as (A & B & C).
  assert (F : terms_in_format t).
  { apply format_terms. intros z Z. destruct (in_numbers _ _ _ _ _ T Z) as (k & K & ->). apply H, K. }
  assert (E := sum_any_tree t F). assert (N := leaves_positive t). rewrite C, (length_numbers _ _ _ _ T) in *.
  assert (TS : total t = Sum n x).
  { rewrite A, (added_permutation _ _ T). apply added_numbers. }
  assert (MS : mass t = Sum n x).
  { rewrite B, (added_of _ _ _ _ _ T). apply Sum_ext. intros k K. apply Rabs_right, Rle_ge. apply H, K. }
  rewrite TS, MS in E. split; [apply (le_INR 1); exact N | exact E].
Qed.

Lemma over_added : forall f r, over f r = added (map (fun k => f (fst k) (snd k)) r).
Proof. intros f r. unfold added. induction r as [| [p d] r IH]; simpl; [reflexivity | rewrite IH; reflexivity]. Qed.

(** The dot of delta over channels, its operands not rounded before. *)
Lemma dot_error : forall m a b y, dot_of m a b y -> INR m * INR m * u <= 1 ->
  Rabs (y - Sum m (fun k => a k * b k)) <=
    INR m * u * Sum m (fun k => Rabs (a k * b k)) + eta * (INR m + 1) * (1 + Largest m (fun k => Rabs (b k))).
Proof.
  intros m a b y (t & T & ->) H. assert (L := length_numbers _ _ _ _ T). rewrite length_keys in L.
  assert (E := channel_dot t (Largest m (fun k => Rabs (b k))) (Largest_positive m _)). cbv zeta in E. rewrite L in E.
  specialize (E H). rewrite inner_keys, mass_keys in E. unfold A, M in E. rewrite !over_added, !(added_of _ _ _ _ _ T) in E.
  exact E.
Qed.

Lemma eta_below_u : forall k, 0 <= k <= 33554432 -> k * eta <= / 1000 * u.
Proof.
  intros k K. unfold eta, u, prec, emin.
  assert (H : bpow radix2 (-149) <= bpow radix2 (-60)) by (apply bpow_le; lia).
  assert (P := bpow_gt_0 radix2 (-149)).
  apply Rle_trans with (33554432 * (/ 2 * bpow radix2 (-60))).
  - apply Rmult_le_compat; lra.
  - simpl. lra.
Qed.

(** The same where one operand is a code times its scale, rounded first. *)
Lemma dot_rounded_once : forall m a b y, dot_of m (fun k => rnd (a k)) b y -> INR m * INR m * u <= 1 ->
  Rabs (y - Sum m (fun k => a k * b k)) <=
    compound (INR m * u) (path 1) * Sum m (fun k => Rabs (a k * b k))
    + eta * (INR m + 1) * (1 + Largest m (fun k => Rabs (b k))).
Proof.
  intros m a b y (t & T & ->) H. assert (L := length_numbers _ _ _ _ T). rewrite length_keys in L.
  assert (E := inner_any_order t). cbv zeta in E. rewrite L, inner_keys, mass_keys in E.
  unfold A, M in E. rewrite !over_added, !(added_of _ _ _ _ _ T) in E. simpl in E.
  set (n := INR m) in *. set (top := Largest m (fun k => Rabs (b k))).
  assert (U := u_positive). assert (P := eta_positive). assert (T0 : 0 <= top) by apply Largest_positive.
  assert (N0 : 0 <= n) by apply pos_INR.
  assert (B : forall k, (k < m)%nat -> Rabs (b k) <= top) by (intros k K; apply (Largest_is m (fun k => Rabs (b k)) k K)).
  assert (R : forall k, (k < m)%nat -> Rabs (rnd (a k) * b k - a k * b k) <= u * Rabs (a k * b k) + eta * top).
  { intros k K. replace (rnd (a k) * b k - a k * b k) with ((rnd (a k) - a k) * b k) by ring. rewrite !Rabs_mult.
    assert (G := rnd_error (a k)). assert (X := Rabs_pos (b k)). assert (BK := B k K).
    assert (Rabs (rnd (a k) - a k) * Rabs (b k) <= (u * Rabs (a k) + eta) * Rabs (b k)) by (apply Rmult_le_compat_r; assumption).
    assert (eta * Rabs (b k) <= eta * top) by (apply Rmult_le_compat_l; lra). lra. }
  assert (C : Sum m (fun _ => eta * top) = n * (eta * top)) by apply Sum_constant.
  assert (D : Rabs (Sum m (fun k => rnd (a k) * b k) - Sum m (fun k => a k * b k)) <= u * Sum m (fun k => Rabs (a k * b k)) + n * (eta * top)).
  { rewrite <- Sum_minus. eapply Rle_trans. apply Sum_abs. eapply Rle_trans. apply Sum_le. exact R.
    rewrite Sum_plus, Sum_scale, C. lra. }
  assert (Mm : Sum m (fun k => Rabs (rnd (a k) * b k)) <= (1 + u) * Sum m (fun k => Rabs (a k * b k)) + n * (eta * top)).
  { apply Rle_trans with (Sum m (fun k => (1 + u) * Rabs (a k * b k) + eta * top)).
    - apply Sum_le. intros k K. assert (G := R k K).
      replace (rnd (a k) * b k) with (a k * b k + (rnd (a k) * b k - a k * b k)) by ring.
      eapply Rle_trans. apply Rabs_triang. lra.
    - rewrite Sum_plus, Sum_scale, C. lra. }
  set (S := Sum m (fun k => Rabs (a k * b k))) in *.
  assert (X : n * u * Sum m (fun k => Rabs (rnd (a k) * b k)) <= n * u * ((1 + u) * S + n * (eta * top))).
  { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | exact Mm]. }
  assert (P1 : path 1 = u) by (unfold path; ring).
  replace (computed t - Sum m (fun k => a k * b k))
    with ((computed t - Sum m (fun k => rnd (a k) * b k)) + (Sum m (fun k => rnd (a k) * b k) - Sum m (fun k => a k * b k))) by ring.
  eapply Rle_trans. apply Rabs_triang. unfold compound. rewrite P1.
  assert (Y : n * (1 + n * u) * eta * (1 + top) <= eta * (n + 1) * (1 + top)).
  { replace (n * (1 + n * u) * eta * (1 + top)) with ((n + n * n * u) * (eta * (1 + top))) by ring.
    replace (eta * (n + 1) * (1 + top)) with ((n + 1) * (eta * (1 + top))) by ring.
    apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | lra]. }
  lra.
Qed.

Lemma pairs_added : forall l : list (R * R * R * R),
  exact_dot l = added (map (fun k => let '(a, b, a', b') := k in a * b) l) /\
  exact_mass l = added (map (fun k => let '(a, b, a', b') := k in Rabs (a * b)) l).
Proof.
  unfold added. induction l as [| [[[a b] a'] b'] l (A & B)]; simpl; [split; reflexivity | rewrite A, B; split; reflexivity].
Qed.

Lemma rounded_list : forall m a b t, Permutation (keys t) (numbers m (fun k => (rnd (a k), rnd (b k)))) ->
  exists l, keys t = pairs l /\ Permutation l (numbers m (fun k => (a k, b k, rnd (a k), rnd (b k)))).
Proof.
  intros m a b t H. replace (numbers m (fun k => (rnd (a k), rnd (b k)))) with
    (pairs (numbers m (fun k => (a k, b k, rnd (a k), rnd (b k))))) in H.
  - unfold pairs in H. destruct (Permutation_map_inv _ _ H) as (l & E & Q). exists l. split; [exact E | apply Permutation_sym; exact Q].
  - unfold pairs, numbers. rewrite map_map. reflexivity.
Qed.

Lemma rounded_once_list : forall m a b F l, Permutation l (numbers m (fun k => (a k, b k, rnd (a k), rnd (b k)))) ->
  (forall k, (k < m)%nat -> Rabs (a k) + Rabs (b k) <= F) -> rounded_once F l.
Proof.
  intros m a b F l H B x y x' y' I. destruct (in_numbers _ _ _ _ _ H I) as (k & K & E). injection E as -> -> -> ->.
  repeat split; [apply rnd_error | apply rnd_error | apply B, K].
Qed.

(** dP: both operands are codes times scales, rounded first. *)
Lemma dot_of_rounded : forall m a b y, dot_of m (fun k => rnd (a k)) (fun k => rnd (b k)) y -> INR m * u <= / 4 ->
  Rabs (y - Sum m (fun k => a k * b k)) <=
    compound (path 2) (INR m * u) * Sum m (fun k => Rabs (a k * b k))
    + eta * (INR m + 1) * (1 + INR m * u) * (2 + (Largest m (fun k => Rabs (a k)) + Largest m (fun k => Rabs (b k)))).
Proof.
  intros m a b y (t & T & ->) H. destruct (rounded_list _ _ _ _ T) as (l & K & L).
  set (F := Largest m (fun k => Rabs (a k)) + Largest m (fun k => Rabs (b k))).
  assert (F0 : 0 <= F) by (apply Rplus_le_le_0_compat; apply Largest_positive).
  assert (O : rounded_once F l).
  { apply (rounded_once_list m a b F l L). intros k J.
    apply Rplus_le_compat; [apply (Largest_is m (fun k => Rabs (a k)) k J) | apply (Largest_is m (fun k => Rabs (b k)) k J)]. }
  assert (N := length_numbers _ _ _ _ L). assert (E := rounded_operands t l F K F0 O). cbv zeta in E. rewrite N in E.
  destruct (pairs_added l) as (A & B). rewrite A, B, !(added_of _ _ _ _ _ L) in E. apply E. lra.
Qed.

(** O before its store: the same over keys, and a quotient. *)
Lemma quotient_of_rounded : forall n w v row y, dot_of n (fun j => rnd (w j)) (fun j => rnd (v j)) y ->
  (forall j, (j < n)%nat -> 0 <= w j) -> 1 <= row -> INR n * u <= / 4 ->
  Rabs (rnd (y / row) - Sum n (fun j => w j / row * v j)) <=
    compound (path 3) (INR n * u) * Sum n (fun j => w j / row * Rabs (v j))
    + eta * (INR n + 1) * (1 + INR n * u) * (2 + (Largest n (fun j => Rabs (v j)) + Largest n (fun j => w j / row))).
Proof.
  intros n w v row y (t & T & ->) W R H. destruct (rounded_list _ _ _ _ T) as (l & K & L).
  set (V := Largest n (fun j => Rabs (v j))). set (X := Largest n (fun j => w j / row)).
  assert (V0 : 0 <= V) by apply Largest_positive. assert (X0 : 0 <= X) by apply Largest_positive.
  assert (W0 : 0 <= X * row) by (apply Rmult_le_pos; lra).
  assert (O : rounded_once (V + X * row) l).
  { apply (rounded_once_list n w v _ l L). intros j J. rewrite Rplus_comm. apply Rplus_le_compat.
    - apply (Largest_is n (fun j => Rabs (v j)) j J).
    - rewrite Rabs_right by (apply Rle_ge, W, J). assert (G := Largest_is n (fun j => w j / row) j J). fold X in G. cbv beta in G.
      replace (w j) with (w j / row * row) by (field; lra). apply Rmult_le_compat_r; lra. }
  assert (N := length_numbers _ _ _ _ L). assert (E := rounded_quotient t l V (X * row) row K V0 W0 R O). cbv zeta in E. rewrite N in E.
  specialize (E H). destruct (pairs_added l) as (A & B). rewrite A, B, !(added_of _ _ _ _ _ L) in E.
  replace (X * row / row) with X in E by (field; lra).
  replace (Sum n (fun j => w j / row * v j)) with (Sum n (fun j => w j * v j) / row).
  - replace (Sum n (fun j => w j / row * Rabs (v j))) with (Sum n (fun j => Rabs (w j * v j)) / row); [exact E |].
    unfold Rdiv. rewrite Rmult_comm, <- Sum_scale. apply Sum_ext. intros j J.
    rewrite Rabs_mult, (Rabs_right (w j)) by (apply Rle_ge, W, J). ring.
  - unfold Rdiv. rewrite Rmult_comm, <- Sum_scale. apply Sum_ext. intros j J. ring.
Qed.

(** A sum of numbers that are not negative is at least each of them. *)
Lemma sum_at_least : forall n x y j, sum_of n x y -> (forall k, (k < n)%nat -> binary32 (x k) /\ 0 <= x k) ->
  (j < n)%nat -> x j <= y.
Proof.
  intros n x y j (t & T & ->) H J.
  assert (G : forall t, (forall z, In z (terms t) -> binary32 z /\ 0 <= z) ->
    binary32 (sum t) /\ 0 <= sum t /\ forall z, In z (terms t) -> z <= sum t).
  { clear. induction t as [x | l IHl r IHr]; simpl; intro H.
    - destruct (H x (or_introl eq_refl)). repeat split; try assumption. intros z [-> | []]. lra.
    - destruct IHl as (Fl & Pl & L); [intros z Z; apply H, in_or_app; tauto |].
      destruct IHr as (Fr & Pr & Q); [intros z Z; apply H, in_or_app; tauto |].
      assert (Ll : sum l <= rnd (sum l + sum r)).
      { replace (sum l) with (rnd (sum l)) at 1 by (apply round_generic; [apply valid_rnd_N | exact Fl]). apply rnd_le. lra. }
      assert (Lr : sum r <= rnd (sum l + sum r)).
      { replace (sum r) with (rnd (sum r)) at 1 by (apply round_generic; [apply valid_rnd_N | exact Fr]). apply rnd_le. lra. }
      split; [apply rnd_format | split; [lra |]]. intros z Z. apply in_app_or in Z. destruct Z as [Z | Z].
      + assert (K := L z Z). lra.
      + assert (K := Q z Z). lra. }
  destruct (G t) as (_ & _ & K).
  { intros z Z. destruct (in_numbers _ _ _ _ _ T Z) as (k & I & ->). apply H, I. }
  apply K. apply (Permutation_in (l := numbers n x)); [apply Permutation_sym; exact T |].
  unfold numbers. apply in_map_iff. exists j. split; [reflexivity | apply in_seq; lia].
Qed.

Lemma Sum_at_least : forall n f, (forall j, (j < n)%nat -> 0 <= f j) ->
  0 <= Sum n f /\ forall j, (j < n)%nat -> f j <= Sum n f.
Proof.
  induction n as [| n IH]; intros f H; simpl; [split; [lra | intros; lia] |].
  destruct (IH f) as (A & B); [intros; apply H; lia |]. assert (C := H n (Nat.lt_succ_diag_r n)). split; [lra |].
  intros j J. destruct (Nat.eq_dec j n) as [-> | N]; [lra |]. assert (D := B j ltac:(lia)). lra.
Qed.
