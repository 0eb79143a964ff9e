(** BF16 stores and block scales.

    Section 6. BF16 has 8 significant bits and the smallest positive number 2^-133. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core Relative.
From dmverify Require Import Binary32.
Open Scope R_scope.

Definition bf16 := round radix2 (FLT_exp (-133) 8) ZnearestE.

(** bf16-store: a 257th, and half the smallest number where it underflows. *)
Theorem bf16_store : forall x, Rabs (bf16 x - x) <= Rabs x / 257 + / 2 * bpow radix2 (- 133).
Proof.
  intro x.
  destruct (relative_error_N_FLT'_ex radix2 (-133) 8 (eq_refl _) (fun z => negb (Z.even z)) x)
    as (e & d & He & Hd & _ & Hr).
  unfold bf16. change ZnearestE with (Znearest (fun z => negb (Z.even z))). rewrite Hr.
  replace (u_ro radix2 8) with (/ 256) in He by (unfold u_ro; simpl; lra).
  replace (/ 256 / (1 + / 256)) with (/ 257) in He by field.
  replace (x * (1 + e) + d - x) with (e * x + d) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult.
  apply Rplus_le_compat; [| exact Hd].
  unfold Rdiv. rewrite (Rmult_comm (Rabs x)). apply Rmult_le_compat_r; [apply Rabs_pos | exact He].
Qed.

Lemma format_top : binary32 (448 + / 32768).
Proof.
  replace (448 + / 32768) with (F2R (Float radix2 14680065 (- 15))) by (unfold F2R; simpl; lra).
  apply generic_format_F2R. intro H. unfold cexp.
  assert (M : (mag radix2 (F2R (Float radix2 14680065 (- 15))) = 9 :> Z)%Z).
  { apply mag_unique_pos. unfold F2R. simpl. lra. }
  rewrite M. unfold fexp, FLT_exp, prec, emin. lia.
Qed.

(** scale-divide-range: with s = rnd(a / 448) and no element above a, a quotient x / s is at most
    448 + 2^-15, the next number: it rounds to a code. Premise: a / 448 does not underflow. *)
Theorem quotient_range :
  forall a x, bpow radix2 (emin + prec - 1) <= a / 448 -> 0 <= x <= a ->
  rnd (x / rnd (a / 448)) <= 448 + / 32768.
Proof.
  intros a x Ha Hx.
  assert (P := bpow_gt_0 radix2 (emin + prec - 1)). assert (U := u_positive).
  assert (A : 0 < a / 448) by lra.
  destruct (relative_error_N_FLX'_ex radix2 prec prec_positive (fun z => negb (Z.even z)) (a / 448))
    as (e & He & Hr).
  assert (S : rnd (a / 448) = a / 448 * (1 + e)).
  { rewrite <- Hr. unfold rnd, fexp. apply round_FLT_FLX. rewrite Rabs_right by lra. exact Ha. }
  assert (V : u_ro radix2 prec / (1 + u_ro radix2 prec) = / 16777217).
  { replace (u_ro radix2 prec) with (/ 16777216) by (unfold u_ro, prec; simpl; lra). field. }
  rewrite V in He. apply Rabs_le_inv in He.
  unfold rnd at 1. apply round_le_generic; [apply fexp_valid | apply valid_rnd_N | apply format_top |].
  rewrite S.
  assert (Q : x / (a / 448 * (1 + e)) <= 448 / (1 - / 16777217)).
  { apply Rmult_le_reg_r with (a / 448 * (1 + e)); [apply Rmult_lt_0_compat; lra |].
    replace (x / (a / 448 * (1 + e)) * (a / 448 * (1 + e))) with x by (field; lra).
    assert (G : 448 / (1 - / 16777217) * (a / 448 * (1 - / 16777217)) = a) by (field; lra).
    assert (H : a / 448 * (1 - / 16777217) <= a / 448 * (1 + e)) by (apply Rmult_le_compat_l; lra).
    assert (K : 0 < 448 / (1 - / 16777217)) by (apply Rdiv_lt_0_compat; lra).
    assert (L := Rmult_le_compat_l _ _ _ (Rlt_le _ _ K) H). lra. }
  eapply Rle_trans. exact Q. lra.
Qed.

(** rn-equivariance: a power of two passes through a rounding where neither side underflows. *)
Theorem power_of_two :
  forall x e, bpow radix2 (emin + prec - 1) <= Rabs x ->
  bpow radix2 (emin + prec - 1) <= Rabs (x * bpow radix2 e) ->
  rnd (x * bpow radix2 e) = rnd x * bpow radix2 e.
Proof.
  intros x e H1 H2. unfold rnd, fexp.
  rewrite !(round_FLT_FLX radix2 emin prec) by assumption.
  unfold round, scaled_mantissa, cexp, F2R, FLX_exp. simpl.
  assert (N : x <> 0).
  { intro Z. rewrite Z, Rabs_R0 in H1. assert (P := bpow_gt_0 radix2 (emin + prec - 1)). lra. }
  rewrite mag_mult_bpow by exact N.
  replace (- (mag radix2 x + e - prec))%Z with (- (mag radix2 x - prec) + - e)%Z by ring.
  rewrite bpow_plus.
  replace (x * bpow radix2 e * (bpow radix2 (- (mag radix2 x - prec)) * bpow radix2 (- e)))
    with (x * bpow radix2 (- (mag radix2 x - prec)) * (bpow radix2 e * bpow radix2 (- e))) by ring.
  rewrite <- bpow_plus. replace (e + - e)%Z with 0%Z by ring. simpl (bpow radix2 0). rewrite Rmult_1_r.
  replace (mag radix2 x + e - prec)%Z with ((mag radix2 x - prec) + e)%Z by ring.
  rewrite bpow_plus. ring.
Qed.
