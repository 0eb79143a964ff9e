(** Means and norms over keys: centring K, the projection of dK, Cauchy and Schwarz. Section 4.

    Sums of any length, over the real numbers; what rounding adds has its own theorems. *)
Require Import Reals Lra Lia.
From dmverify Require Import Binary32 Ledger.
Open Scope R_scope.

Definition mean n (x : nat -> R) := Sum n x / INR n.

Lemma Sum_of_one : forall n, Sum n (fun _ => 1) = INR n.
Proof. induction n as [| n IH]; [reflexivity |]. rewrite S_INR. simpl. rewrite IH. reflexivity. Qed.

Lemma Sum_square : forall n f, 0 <= Sum n (fun j => f j * f j).
Proof.
  induction n as [| n IH]; intro f; simpl; [lra |]. assert (H := IH f). assert (Q := Rle_0_sqr (f n)). unfold Rsqr in Q. lra.
Qed.

(** centring-gradient: the gradient of x - mean x is G - mean G. *)
Theorem centred_gradient :
  forall n G x, (0 < n)%nat ->
  Sum n (fun j => G j * (x j - mean n x)) = Sum n (fun j => (G j - mean n G) * x j).
Proof.
  intros n G x H. assert (N : 0 < INR n) by (apply lt_0_INR; exact H).
  rewrite (Sum_ext n (fun j => G j * (x j - mean n x)) (fun j => G j * x j - mean n x * G j)) by (intros; ring).
  rewrite (Sum_ext n (fun j => (G j - mean n G) * x j) (fun j => G j * x j - mean n G * x j)) by (intros; ring).
  rewrite !Sum_minus, !Sum_scale. unfold mean. field. lra.
Qed.

(** centring-shift: a shift of every key moves all logits of a row alike. *)
Theorem shifted_logits :
  forall d q k l mu,
  Sum d (fun c => q c * (k c - mu c)) - Sum d (fun c => q c * (l c - mu c)) =
    Sum d (fun c => q c * k c) - Sum d (fun c => q c * l c).
Proof.
  intros d q k l mu. rewrite <- !Sum_minus. apply Sum_ext. intros c _. ring.
Qed.

Lemma projected_sum : forall n x, (0 < n)%nat -> Sum n (fun j => x j - mean n x) = 0.
Proof.
  intros n x H. assert (N : 0 < INR n) by (apply lt_0_INR; exact H).
  rewrite Sum_minus.
  rewrite (Sum_ext n (fun _ => mean n x) (fun _ => mean n x * 1)) by (intros; ring).
  rewrite Sum_scale, Sum_of_one. unfold mean. field. lra.
Qed.

Lemma projected_norm :
  forall n x, (0 < n)%nat ->
  Sum n (fun j => (x j - mean n x) * (x j - mean n x)) <= Sum n (fun j => x j * x j).
Proof.
  intros n x H. assert (N : 0 < INR n) by (apply lt_0_INR; exact H).
  rewrite (Sum_ext n _ (fun j => x j * x j - 2 * mean n x * x j + mean n x * mean n x * 1)) by (intros; ring).
  rewrite Sum_plus, Sum_minus, !Sum_scale, Sum_of_one.
  assert (E : Sum n x = mean n x * INR n) by (unfold mean; field; lra). rewrite E.
  assert (0 <= mean n x * mean n x * INR n).
  { apply Rmult_le_pos; [| lra]. assert (Q := Rle_0_sqr (mean n x)). unfold Rsqr in Q. exact Q. }
  lra.
Qed.

(** projected-dk: no column sum is left, and no norm is gained. *)
Theorem projected :
  forall n x, (0 < n)%nat ->
  Sum n (fun j => x j - mean n x) = 0 /\
  Sum n (fun j => (x j - mean n x) * (x j - mean n x)) <= Sum n (fun j => x j * x j).
Proof. intros n x H. split; [apply projected_sum | apply projected_norm]; exact H. Qed.

(** cauchy-schwarz, by the sum of (a_j B - b_j C)^2 with B = sum b^2, C = sum a b. *)
Theorem cauchy_schwarz :
  forall n a b,
  Sum n (fun j => a j * b j) * Sum n (fun j => a j * b j) <=
    Sum n (fun j => a j * a j) * Sum n (fun j => b j * b j).
Proof.
  intros n a b. set (A := Sum n (fun j => a j * a j)). set (B := Sum n (fun j => b j * b j)).
  set (C := Sum n (fun j => a j * b j)).
  assert (PA : 0 <= A) by apply Sum_square. assert (PB : 0 <= B) by apply Sum_square.
  assert (S : 0 <= B * (A * B - C * C)).
  { assert (Q := Sum_square n (fun j => a j * B - b j * C)).
    rewrite (Sum_ext n _ (fun j => B * B * (a j * a j) - 2 * B * C * (a j * b j) + C * C * (b j * b j))) in Q by (intros; ring).
    rewrite Sum_plus, Sum_minus, !Sum_scale in Q. fold A B C in Q. lra. }
  destruct (Req_dec B 0) as [Z | NZ].
  - (* all b are 0 *)
    assert (E : forall n b, Sum n (fun j => b j * b j) = 0 -> Sum n (fun j => a j * b j) = 0).
    { clear. induction n as [| n IH]; intros b H; simpl in *; [reflexivity |].
      assert (P := Sum_square n b). assert (Q := Rle_0_sqr (b n)). unfold Rsqr in Q.
      rewrite IH by lra. assert (W : b n * b n = 0) by lra. apply Rmult_integral in W. destruct W as [-> | ->]; ring. }
    unfold C. rewrite (E n b Z). rewrite Z. lra.
  - assert (PB' : 0 < B) by lra. apply Rmult_le_reg_l with B; lra.
Qed.

(** shifted-dominance: with at least half of the weight on a key, no other centre is nearer than that
    key's own value, the mean among them. *)
Lemma Sum_but_one :
  forall n P i, (i < n)%nat ->
  Sum n (fun j => if Nat.eq_dec j i then - P j else P j) = Sum n P - 2 * P i.
Proof.
  induction n as [| n IH]; intros P i H; [lia |]. simpl. destruct (Nat.eq_dec n i) as [<- | N].
  - rewrite (Sum_ext n (fun j => if Nat.eq_dec j n then - P j else P j) P); [ring |].
    intros j J. destruct (Nat.eq_dec j n); [lia | reflexivity].
  - rewrite IH by lia. ring.
Qed.

Theorem heaviest_key :
  forall n P d i m, (i < n)%nat -> (forall j, (j < n)%nat -> 0 <= P j) -> Sum n P <= 2 * P i ->
  Sum n (fun j => P j * Rabs (d j - d i)) <= Sum n (fun j => P j * Rabs (d j - m)).
Proof.
  intros n P d i m H HP W. set (D := Rabs (m - d i)).
  assert (E : Sum n (fun j => P j * Rabs (d j - d i)) <=
    Sum n (fun j => P j * Rabs (d j - m) + D * (if Nat.eq_dec j i then - P j else P j))).
  { apply Sum_le. intros j J. assert (Q := HP j J). destruct (Nat.eq_dec j i) as [-> | N].
    - replace (d i - d i) with 0 by ring. rewrite Rabs_R0. unfold D. rewrite (Rabs_minus_sym m). lra.
    - replace (d j - d i) with ((d j - m) + (m - d i)) by ring.
      replace (P j * Rabs (d j - m) + D * P j) with (P j * (Rabs (d j - m) + D)) by ring.
      apply Rmult_le_compat_l; [exact Q | apply Rabs_triang]. }
  rewrite Sum_plus, Sum_scale, (Sum_but_one n P i H) in E.
  assert (0 <= D * (2 * P i - Sum n P)) by (apply Rmult_le_pos; [apply Rabs_pos | lra]). lra.
Qed.
