(** A row of dS from the operands to its bound, for a delta that reads the output. Sections 1 to 3.

    Contracts of whole rows. Nothing is assumed of an error: every number is what the kernel's
    roundings make of the one before, in any order of each sum, with underflow. [s] is the relative
    error of l, for which there are theorems on sums. The right sides are the ledger's terms. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner Rows Stores Casts Known Ledger Probability Coded Rounding Casting Kernel Shares.
Open Scope R_scope.

(** dO as dP uses it: codes z under a scale. *)
Definition gradient m (dO dO' : nat -> R) scale (z : nat -> R) :=
  forall k, (k < m)%nat -> argument scale (dO k) (z k) /\ dO' k = scale * code (z k).

(** dP: dots over channels of code times scale, each rounded to binary32 first. *)
Definition products n m dO' (V : nat -> nat -> R) dP :=
  forall j, (j < n)%nat -> dot_of m (fun k => rnd (dO' k)) (fun k => rnd (V j k)) (dP j).

(** O before its store: dots over keys of code times scale, divided by [row]. *)
Definition outputs n m w (V : nat -> nat -> R) row O32 :=
  forall k, (k < m)%nat -> exists y, dot_of n (fun j => rnd (w j)) (fun j => rnd (V j k)) y /\ O32 k = rnd (y / row).

Definition stored m O32 O := forall k, (k < m)%nat -> O k = bf16 (O32 k).

(** The dS step. *)
Definition elements n (P dP : nat -> R) delta dS :=
  forall j, (j < n)%nat -> dS j = rnd (P j * rnd (dP j - delta)).

(** dP and O as exact sums of what the kernel reads. *)
Definition exact_dP m (g : nat -> R) (V : nat -> nat -> R) j := Sum m (fun k => g k * V j k).
Definition exact_O n (w : nat -> R) row (V : nat -> nat -> R) k := Sum n (fun j => w j / row * V j k).

(** The terms. *)
Definition prob_of_shares n m P head s g V :=
  Sum n (fun j => (coded_error P head s j + inverse (path 1) * (P j + eta) + eta) * Rabs (exact_dP m g V j)).

Definition code_sum n := inverse (compound ((INR n - 1) * u) (path 2)).

Definition prob_of_codes n m P head s g V :=
  let lost := Sum n (coded_error P head s) in
  let relative := compound (inverse (share_error s)) (code_sum n) in
  Sum n (fun j => (coded_error P head s j + relative * (P j + eta + coded_error P head s j) + eta) / (1 - lost)
    * Rabs (exact_dP m g V j))
  + Rabs (Sum n (fun j => P j * exact_dP m g V j)) * lost / (1 - lost).

Definition grad_of_codes n m dO scale w row V :=
  Sum m (fun k => operand_error scale (dO k) * Rabs (exact_O n w row V k)).

Definition acc_of_dots n m g (w : nat -> R) row V :=
  Sum m (fun k => Rabs (g k) * (compound (path 3) (INR n * u) * Sum n (fun j => w j / row * Rabs (V j k))
    + eta * (INR n + 1) * (1 + INR n * u) * (2 + (Largest n (fun j => Rabs (V j k)) + Largest n (fun j => w j / row))))).

Definition out_of_stores m g O32 := Sum m (fun k => Rabs (g k) * half_bf16 (O32 k)).

Definition dot_of_channels m relative g o :=
  relative * Sum m (fun k => Rabs (g k * o k)) + eta * (INR m + 1) * (1 + Largest m (fun k => Rabs (o k))).

Definition norm_of_sum n delta s := Rabs delta * (share_error s + INR n * eta).

Definition accdP_of_dots n m P g V :=
  Sum n (fun j => P j * (compound (path 2) (INR m * u) * Sum m (fun k => Rabs (g k * V j k))
    + eta * (INR m + 1) * (1 + INR m * u) * (2 + (Largest m (fun k => Rabs (g k)) + Largest m (fun k => Rabs (V j k)))))).

Definition elem_of_roundings n P dP delta :=
  path 2 * Sum n (fun j => Rabs (P j * (dP j - delta))) + INR n * eta.

(** Each term is at most its bound. *)
Lemma dot_format : forall m a b y, dot_of m a b y -> binary32 y.
Proof. intros m a b y (t & _ & ->). apply computed_format. Qed.

Lemma elem_bounded : forall n P dP delta dS, binary32 delta -> (forall j, (j < n)%nat -> binary32 (dP j)) ->
  elements n P dP delta dS -> Rabs (elem n P dP dS delta) <= elem_of_roundings n P dP delta.
Proof.
  intros n P dP delta dS Fd F H. unfold elem, elem_of_roundings. eapply Rle_trans. apply Sum_abs.
  eapply Rle_trans. apply Sum_le with (g := fun j => path 2 * Rabs (P j * (dP j - delta)) + eta).
  - intros j J. rewrite (H j J). replace (path 2) with (2 * u + u * u) by (unfold path; ring).
    apply (elem_error delta (P j) (dP j) Fd (F j J)).
  - rewrite Sum_plus, Sum_scale, Sum_constant. lra.
Qed.

Lemma accdP_bounded : forall n m P dP dO' V, INR m * u <= / 4 -> (forall j, (j < n)%nat -> 0 <= P j) ->
  products n m dO' V dP -> Rabs (accdP n m P dP dO' V) <= accdP_of_dots n m P dO' V.
Proof.
  intros n m P dP dO' V M HP H. unfold accdP, accdP_of_dots. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J.
  rewrite Rabs_mult, (Rabs_right (P j)) by (apply Rle_ge, HP, J). apply Rmult_le_compat_l; [apply HP, J |].
  apply (dot_of_rounded m dO' (V j) (dP j) (H j J) M).
Qed.

Lemma acc_bounded : forall n m g w row V O32, INR n * u <= / 4 -> 1 <= row -> (forall j, (j < n)%nat -> 0 <= w j) ->
  outputs n m w V row O32 -> Rabs (acc n m (fun j => w j / row) g O32 V) <= acc_of_dots n m g w row V.
Proof.
  intros n m g w row V O32 N R W H. unfold acc, acc_of_dots. rewrite Rabs_Ropp. eapply Rle_trans. apply Sum_abs. apply Sum_le.
  intros k K. rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos |].
  destruct (H k K) as (y & D & ->). apply (quotient_of_rounded n w (fun j => V j k) row y D W R N).
Qed.

Lemma out_bounded : forall m g O32 O, stored m O32 O -> Rabs (out m g O O32) <= out_of_stores m g O32.
Proof.
  intros m g O32 O H. unfold out, out_of_stores. rewrite Rabs_Ropp. eapply Rle_trans. apply Sum_abs. apply Sum_le.
  intros k K. rewrite Rabs_mult, (H k K). apply Rmult_le_compat_l; [apply Rabs_pos | apply bf16_half_unit].
Qed.

Lemma grad_bounded : forall n m dO dO' scale z w row V, gradient m dO dO' scale z ->
  Rabs (grad n m (fun j => w j / row) dO dO' V) <= grad_of_codes n m dO scale w row V.
Proof.
  intros n m dO dO' scale z w row V H. unfold grad, grad_of_codes. eapply Rle_trans. apply Sum_abs. apply Sum_le.
  intros k K. destruct (H k K) as (A & ->). rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos |].
  apply operand_cast_underflow. exact A.
Qed.

Lemma dot_bounded : forall m g O delta, INR m * INR m * u <= 1 -> dot_of m g O delta ->
  Rabs (dot m g O delta) <= dot_of_channels m (INR m * u) g O.
Proof. intros m g O delta M H. unfold dot, dot_of_channels. rewrite Rabs_Ropp. apply (dot_error m g O delta H M). Qed.

Lemma dot_bounded_once : forall m g O delta, INR m * INR m * u <= 1 -> dot_of m (fun k => rnd (g k)) O delta ->
  Rabs (dot m g O delta) <= dot_of_channels m (compound (INR m * u) (path 1)) g O.
Proof. intros m g O delta M H. unfold dot, dot_of_channels. rewrite Rabs_Ropp. apply (dot_rounded_once m g O delta H M). Qed.

Lemma norm_bounded : forall n e l P s delta, softmax n e l P -> Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 ->
  Rabs (norm n P delta) <= norm_of_sum n delta s.
Proof.
  intros n e l P s delta S N H. unfold norm, norm_of_sum, B_row. rewrite Rabs_mult.
  apply Rmult_le_compat_l; [apply Rabs_pos | apply (unit_row n e l P s S N H)].
Qed.

Lemma prob_exchange : forall n m P P' dO' V,
  prob n m P P' dO' V = Sum n (fun j => (P j - P' j) * dP_exact m dO' V j).
Proof.
  intros n m P P' dO' V. unfold prob, dP_exact.
  rewrite (Sum_ext m _ (fun k => Sum n (fun j => dO' k * ((P j - P' j) * V j k)))) by (intros; symmetry; apply Sum_scale).
  rewrite <- Sum_exchange. apply Sum_ext. intros j _. rewrite <- Sum_scale. apply Sum_ext. intros k _. ring.
Qed.

Lemma prob_bounded : forall n m e l P s head w dO' V, softmax n e l P -> coded n e head w ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 ->
  Rabs (prob n m P (fun j => w j / l) dO' V) <= prob_of_shares n m P head s dO' V.
Proof.
  intros n m e l P s head w dO' V S C N H. rewrite prob_exchange. assert (L := l_1 n e l P S). assert (U := u_small).
  apply (prob_unrounded n P (fun j => w j / l) (fun j => e j / l) (coded_error P head s) (fun _ => path 1) _ eta).
  - assert (E := eta_positive). lra.
  - intros j J. rewrite path_1. split; [| lra]. unfold Rdiv. apply Rmult_le_pos; [apply (e_facts n e l P S j J) | left; apply Rinv_0_lt_compat; lra].
  - intros j J. apply (code_near n e l P s S H head w C l j ltac:(lra) J). intros i I. apply (share_above n e l P s S N H i I).
  - intros j J. apply (share_of_l n e l P S j J).
Qed.

(** The sum of the codes, as it is computed. *)
Lemma code_sum_near : forall n w row, sum_of n (fun j => rnd (w j)) row -> (forall j, (j < n)%nat -> 0 <= w j) ->
  1 <= row -> INR n * u <= / 4 -> / 2 <= Sum n w /\ Rabs (Sum n w / row - 1) <= code_sum n.
Proof.
  intros n w row S W R N. assert (U := u_small).
  assert (F : forall j, (j < n)%nat -> binary32 (rnd (w j)) /\ 0 <= rnd (w j)).
  { intros j J. split; [apply rnd_format | rewrite <- rnd_0; apply rnd_le, W, J]. }
  destruct (sum_error n _ row S F) as (N1 & E). set (T := Sum n (fun j => rnd (w j))) in *. set (X := Sum n w).
  assert (X0 : 0 <= X) by (apply Sum_at_least; exact W). assert (NN : INR n <= 33554432).
  { apply Rmult_le_reg_r with u; [lra |]. assert (u = / 16777216) by (unfold u, prec; simpl; lra). lra. }
  assert (NE := eta_below_u (INR n) ltac:(lra)).
  assert (D : Rabs (T - X) <= u * X + INR n * eta).
  { unfold T, X. rewrite <- Sum_minus. eapply Rle_trans. apply Sum_abs.
    eapply Rle_trans. apply Sum_le with (g := fun j => u * w j + eta).
    - intros j J. assert (G := rnd_error (w j)). rewrite (Rabs_right (w j)) in G by (apply Rle_ge, W, J). exact G.
    - rewrite Sum_plus, Sum_scale, Sum_constant. lra. }
  assert (Dk := D). apply Rabs_le_inv in D. assert (Ek := E). apply Rabs_le_inv in E.
  assert (NU : 0 <= (INR n - 1) * u <= / 4) by (split; [apply Rmult_le_pos; lra | lra]).
  assert (T0 : 0 <= T) by (apply Sum_at_least; intros j J; apply F, J).
  assert (T1 : (INR n - 1) * u * T <= / 4 * T) by (apply Rmult_le_compat_r; lra).
  assert (X1 : / 2 <= X) by nra.
  split; [exact X1 |].
  assert (P2 : path 2 = 2 * u + u * u) by (unfold path; ring).
  assert (uu : 0 <= u * u <= / 1000 * u) by (split; [apply Rmult_le_pos; lra | apply Rmult_le_compat_r; lra]).
  assert (D2 : Rabs (T - X) <= path 2 * X).
  { rewrite P2. assert (0 <= u * u * X) by (apply Rmult_le_pos; lra). assert (u * / 2 <= u * X) by (apply Rmult_le_compat_l; lra). lra. }
  set (c := compound ((INR n - 1) * u) (path 2)).
  assert (RX : Rabs (row - X) <= c * X).
  { replace (row - X) with ((row - T) + (T - X)) by ring. eapply Rle_trans. apply Rabs_triang.
    assert (TX : T <= (1 + path 2) * X) by (apply Rabs_le_inv in D2; lra).
    assert ((INR n - 1) * u * T <= (INR n - 1) * u * ((1 + path 2) * X)) by (apply Rmult_le_compat_l; lra).
    unfold c, compound. lra. }
  assert (C1 : 0 <= c < 1).
  { unfold c, compound. rewrite P2. assert (0 <= (INR n - 1) * u * (2 * u + u * u)) by (apply Rmult_le_pos; lra).
    assert ((INR n - 1) * u * (2 * u + u * u) <= / 4 * (2 * u + u * u)) by (apply Rmult_le_compat_r; lra). lra. }
  set (sg := row / X - 1).
  assert (SG : Rabs sg <= c).
  { unfold sg. replace (row / X - 1) with ((row - X) / X) by (field; lra). unfold Rdiv.
    rewrite Rabs_mult, (Rabs_right (/ X)) by (left; apply Rinv_0_lt_compat; lra).
    apply Rmult_le_reg_r with X; [lra |]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact RX. }
  assert (I := inverse_of_sum sg c C1 SG). fold c in I. unfold code_sum. fold c.
  replace (X / row) with (/ (1 + sg)); [exact I |]. unfold sg. field. lra.
Qed.

Lemma prob_bounded_codes : forall n m e l P s head w row dO' V, softmax n e l P -> coded n e head w ->
  sum_of n (fun j => rnd (w j)) row -> 1 <= row -> INR n * u <= / 4 ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> Sum n (coded_error P head s) < 1 ->
  Rabs (prob n m P (fun j => w j / row) dO' V) <= prob_of_codes n m P head s dO' V.
Proof.
  intros n m e l P s head w row dO' V S C R R1 K N H Q. rewrite prob_exchange.
  assert (W1 := whole_1 n e l P S). assert (W := w_positive n e l P S head w C).
  destruct (code_sum_near n w row R W R1 K) as (X1 & X). set (F := Sum n e) in *.
  assert (IF : 0 < / F) by (apply Rinv_0_lt_compat; lra).
  assert (U := u_small). assert (SE := share_error_small s H). rewrite path_1 in SE.
  assert (T : forall f, Sum n (fun j => f j / F) = Sum n f / F).
  { intro f. unfold Rdiv. rewrite (Rmult_comm (Sum n f)), <- Sum_scale. apply Sum_ext. intros; ring. }
  assert (near : forall j, (j < n)%nat -> Rabs (w j / F - e j / F) <= coded_error P head s j).
  { intros j J. apply (code_near n e l P s S H head w C F j ltac:(lra) J). intros i I. apply (share_above n e l P s S N H i I). }
  assert (B := prob_codes n P (fun j => e j / F) (fun j => w j / F) (coded_error P head s) (fun _ => share_error s)
    (dP_exact m dO' V) (code_sum n) (Sum n w / row - 1) eta).
  cbv zeta in B. unfold prob_of_codes.
  rewrite (Sum_ext n (fun j => (P j - w j / row) * dP_exact m dO' V j)
    (fun j => (P j - w j / F * (1 + (Sum n w / row - 1)) / Sum n (fun j => w j / F)) * dP_exact m dO' V j)).
  2: { intros j J. rewrite T. f_equal. f_equal. field. repeat split; lra. }
  apply B.
  - assert (E := eta_positive). lra.
  - intros j J. repeat split; try lra.
    + unfold Rdiv. apply Rmult_le_pos; [apply (e_facts n e l P S j J) | lra].
    + unfold Rdiv. apply Rmult_le_pos; [apply W, J | lra].
    + eapply Rle_trans; [apply Rabs_pos | apply near, J].
  - rewrite T. fold F. field. lra.
  - exact near.
  - intros j J. apply (share_of_whole n e l P s S N H j J).
  - exact X.
  - exact Q.
Qed.

Lemma no_vmis : forall n m P' dO' V, vmis n m P' dO' V V = 0.
Proof.
  intros n m P' dO' V. unfold vmis. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k _.
  rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j _. ring.
Qed.

Lemma few_channels : forall m, INR m * INR m * u <= 1 -> INR m * u <= / 4.
Proof.
  intros m H. assert (U : u = / 16777216) by (unfold u, prec; simpl; lra). rewrite U in *.
  assert (INR m <= 4096); [| lra]. destruct (Rle_or_lt (INR m) 4096) as [L | L]; [exact L | exfalso].
  assert (4096 * 4096 < INR m * INR m) by (apply Rmult_le_0_lt_compat; lra). lra.
Qed.

(** stale, l the sum of the unrounded exponentials. *)
Theorem stale_row :
  forall n m e l P s head w V dO dO' scale z dP O32 O delta dS,
  softmax n e l P -> coded n e head w -> gradient m dO dO' scale z -> products n m dO' V dP ->
  outputs n m w V l O32 -> stored m O32 O -> dot_of m dO O delta -> elements n P dP delta dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> INR n * u <= / 4 -> INR m * INR m * u <= 1 ->
  Rabs (Sum n dS) <=
    prob_of_shares n m P head s dO' V + grad_of_codes n m dO scale w l V + acc_of_dots n m dO w l V
    + out_of_stores m dO O32 + dot_of_channels m (INR m * u) dO O + norm_of_sum n delta s
    + accdP_of_dots n m P dO' V + elem_of_roundings n P dP delta.
Proof.
  intros n m e l P s head w V dO dO' scale z dP O32 O delta dS S C G D X T Y E N H K M.
  assert (I := ledger_stale n m P (fun j => w j / l) dP dS dO dO' O O32 V V delta).
  rewrite no_vmis in I. unfold R_row in I. rewrite I, Rplus_0_r. clear I.
  assert (A := prob_bounded n m e l P s head w dO' V S C N H).
  assert (A1 := grad_bounded n m dO dO' scale z w l V G).
  assert (A2 := acc_bounded n m dO w l V O32 K (l_1 n e l P S) (w_positive n e l P S head w C) X).
  assert (A3 := out_bounded m dO O32 O T). assert (A4 := dot_bounded m dO O delta M Y).
  assert (A5 := norm_bounded n e l P s delta S N H).
  assert (A6 := accdP_bounded n m P dP dO' V (few_channels m M) (P_positive n e l P S) D).
  assert (A7 := elem_bounded n P dP delta dS (dot_format _ _ _ _ Y) (fun j J => dot_format _ _ _ _ (D j J)) E).
  apply Rabs_le_inv in A, A1, A2, A3, A4, A5, A6, A7. apply Rabs_le. lra.
Qed.

(** stale, l the sum of the codes as O is divided by it. *)
Theorem stale_row_codes :
  forall n m e l P s head w row V dO dO' scale z dP O32 O delta dS,
  softmax n e l P -> coded n e head w -> gradient m dO dO' scale z -> products n m dO' V dP ->
  sum_of n (fun j => rnd (w j)) row -> 1 <= row ->
  outputs n m w V row O32 -> stored m O32 O -> dot_of m dO O delta -> elements n P dP delta dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> Sum n (coded_error P head s) < 1 ->
  INR n * u <= / 4 -> INR m * INR m * u <= 1 ->
  Rabs (Sum n dS) <=
    prob_of_codes n m P head s dO' V + grad_of_codes n m dO scale w row V + acc_of_dots n m dO w row V
    + out_of_stores m dO O32 + dot_of_channels m (INR m * u) dO O + norm_of_sum n delta s
    + accdP_of_dots n m P dO' V + elem_of_roundings n P dP delta.
Proof.
  intros n m e l P s head w row V dO dO' scale z dP O32 O delta dS S C G D R R1 X T Y E N H Q K M.
  assert (I := ledger_stale n m P (fun j => w j / row) dP dS dO dO' O O32 V V delta).
  rewrite no_vmis in I. unfold R_row in I. rewrite I, Rplus_0_r. clear I.
  assert (A := prob_bounded_codes n m e l P s head w row dO' V S C R R1 K N H Q).
  assert (A1 := grad_bounded n m dO dO' scale z w row V G).
  assert (A2 := acc_bounded n m dO w row V O32 K R1 (w_positive n e l P S head w C) X).
  assert (A3 := out_bounded m dO O32 O T). assert (A4 := dot_bounded m dO O delta M Y).
  assert (A5 := norm_bounded n e l P s delta S N H).
  assert (A6 := accdP_bounded n m P dP dO' V (few_channels m M) (P_positive n e l P S) D).
  assert (A7 := elem_bounded n P dP delta dS (dot_format _ _ _ _ Y) (fun j J => dot_format _ _ _ _ (D j J)) E).
  apply Rabs_le_inv in A, A1, A2, A3, A4, A5, A6, A7. apply Rabs_le. lra.
Qed.

(** consistent: delta reads dO as dP does, code times scale rounded once. *)
Theorem consistent_row :
  forall n m e l P s head w V dO' dP O32 O delta dS,
  softmax n e l P -> coded n e head w -> products n m dO' V dP ->
  outputs n m w V l O32 -> stored m O32 O -> dot_of m (fun k => rnd (dO' k)) O delta -> elements n P dP delta dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> INR n * u <= / 4 -> INR m * INR m * u <= 1 ->
  Rabs (Sum n dS) <=
    prob_of_shares n m P head s dO' V + acc_of_dots n m dO' w l V + out_of_stores m dO' O32
    + dot_of_channels m (compound (INR m * u) (path 1)) dO' O + norm_of_sum n delta s
    + accdP_of_dots n m P dO' V + elem_of_roundings n P dP delta.
Proof.
  intros n m e l P s head w V dO' dP O32 O delta dS S C D X T Y E N H K M.
  assert (I := ledger_consistent n m P (fun j => w j / l) dP dS dO' O O32 V V delta).
  rewrite no_vmis in I. unfold R_row in I. rewrite I, Rplus_0_r. clear I.
  assert (A := prob_bounded n m e l P s head w dO' V S C N H).
  assert (A2 := acc_bounded n m dO' w l V O32 K (l_1 n e l P S) (w_positive n e l P S head w C) X).
  assert (A3 := out_bounded m dO' O32 O T). assert (A4 := dot_bounded_once m dO' O delta M Y).
  assert (A5 := norm_bounded n e l P s delta S N H).
  assert (A6 := accdP_bounded n m P dP dO' V (few_channels m M) (P_positive n e l P S) D).
  assert (A7 := elem_bounded n P dP delta dS (dot_format _ _ _ _ Y) (fun j J => dot_format _ _ _ _ (D j J)) E).
  apply Rabs_le_inv in A, A2, A3, A4, A5, A6, A7. apply Rabs_le. lra.
Qed.

Theorem consistent_row_codes :
  forall n m e l P s head w row V dO' dP O32 O delta dS,
  softmax n e l P -> coded n e head w -> products n m dO' V dP ->
  sum_of n (fun j => rnd (w j)) row -> 1 <= row ->
  outputs n m w V row O32 -> stored m O32 O -> dot_of m (fun k => rnd (dO' k)) O delta -> elements n P dP delta dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> Sum n (coded_error P head s) < 1 ->
  INR n * u <= / 4 -> INR m * INR m * u <= 1 ->
  Rabs (Sum n dS) <=
    prob_of_codes n m P head s dO' V + acc_of_dots n m dO' w row V + out_of_stores m dO' O32
    + dot_of_channels m (compound (INR m * u) (path 1)) dO' O + norm_of_sum n delta s
    + accdP_of_dots n m P dO' V + elem_of_roundings n P dP delta.
Proof.
  intros n m e l P s head w row V dO' dP O32 O delta dS S C D R R1 X T Y E N H Q K M.
  assert (I := ledger_consistent n m P (fun j => w j / row) dP dS dO' O O32 V V delta).
  rewrite no_vmis in I. unfold R_row in I. rewrite I, Rplus_0_r. clear I.
  assert (A := prob_bounded_codes n m e l P s head w row dO' V S C R R1 K N H Q).
  assert (A2 := acc_bounded n m dO' w row V O32 K R1 (w_positive n e l P S head w C) X).
  assert (A3 := out_bounded m dO' O32 O T). assert (A4 := dot_bounded_once m dO' O delta M Y).
  assert (A5 := norm_bounded n e l P s delta S N H).
  assert (A6 := accdP_bounded n m P dP dO' V (few_channels m M) (P_positive n e l P S) D).
  assert (A7 := elem_bounded n P dP delta dS (dot_format _ _ _ _ Y) (fun j J => dot_format _ _ _ _ (D j J)) E).
  apply Rabs_le_inv in A, A2, A3, A4, A5, A6, A7. apply Rabs_le. lra.
Qed.
