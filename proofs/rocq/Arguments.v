(** The argument of ex2: a logit's roundings before its reference is subtracted. Section 2.

    S is the exact logit in base 2; the scale's constant and products are off relatively. *)
Require Import Reals Lra Lia.
From dmverify Require Import Binary32.
Open Scope R_scope.

Lemma relative_chain :
  forall S x y a b, 0 <= a -> 0 <= b -> Rabs (x - S) <= a * Rabs S -> Rabs (y - x) <= b * Rabs x ->
  Rabs (y - S) <= (a + b + a * b) * Rabs S.
Proof.
  intros S x y a b A B E F. assert (P := Rabs_pos S).
  assert (X : Rabs x <= (1 + a) * Rabs S).
  { replace x with ((x - S) + S) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (G : b * Rabs x <= b * ((1 + a) * Rabs S)) by (apply Rmult_le_compat_l; assumption).
  replace (y - S) with ((y - x) + (x - S)) by ring. eapply Rle_trans. apply Rabs_triang.
  replace ((a + b + a * b) * Rabs S) with (b * ((1 + a) * Rabs S) + a * Rabs S) by ring. lra.
Qed.

(** ex2-argument-fused: the constant's 5/4 u, one product, and one fused subtraction. *)
Theorem fused_argument :
  forall S once twice b argument,
  Rabs (once - S) <= 5 / 4 * u * Rabs S -> Rabs (twice - once) <= u * Rabs once ->
  Rabs (argument - (twice - b)) <= u * Rabs argument ->
  Rabs (argument - (S - b)) <= (9 / 4 * u + 2 * (u * u)) * Rabs S + u * Rabs argument.
Proof.
  intros S once twice b argument E1 E2 E3. assert (U := u_positive). assert (UU : 0 < u * u) by (apply Rmult_lt_0_compat; lra).
  assert (C := relative_chain S once twice (5 / 4 * u) u ltac:(lra) ltac:(lra) E1 E2).
  assert (P := Rabs_pos S). assert (Q : 0 <= u * u * Rabs S) by (apply Rmult_le_pos; lra).
  replace ((5 / 4 * u + u + 5 / 4 * u * u) * Rabs S) with (9 / 4 * u * Rabs S + 5 / 4 * (u * u * Rabs S)) in C by field.
  replace (argument - (S - b)) with ((argument - (twice - b)) + (twice - S)) by ring.
  eapply Rle_trans. apply Rabs_triang.
  replace ((9 / 4 * u + 2 * (u * u)) * Rabs S) with (9 / 4 * u * Rabs S + 2 * (u * u * Rabs S)) by ring. lra.
Qed.

(** ex2-argument: with a product of its own. *)
Theorem rounded_argument :
  forall S once twice logit b argument,
  Rabs (once - S) <= 5 / 4 * u * Rabs S -> Rabs (twice - once) <= u * Rabs once ->
  Rabs (logit - twice) <= u * Rabs twice -> Rabs (argument - (logit - b)) <= u * Rabs argument ->
  Rabs (argument - (S - b)) <= (13 / 4 * u + 8 * (u * u)) * Rabs S + u * Rabs argument.
Proof.
  intros S once twice logit b argument E1 E2 E3 E4. assert (U := u_positive). assert (U1 := u_below_1).
  assert (UU : 0 < u * u) by (apply Rmult_lt_0_compat; lra). assert (UUU : 0 <= u * (u * u) <= u * u).
  { split; [apply Rmult_le_pos; lra |]. rewrite <- (Rmult_1_l (u * u)) at 2. apply Rmult_le_compat_r; lra. }
  assert (C := relative_chain S once twice (5 / 4 * u) u ltac:(lra) ltac:(lra) E1 E2).
  assert (D := relative_chain S twice logit (5 / 4 * u + u + 5 / 4 * u * u) u ltac:(lra) ltac:(lra) C E3).
  assert (P := Rabs_pos S).
  assert (Q : (5 / 4 * u + u + 5 / 4 * u * u + u + (5 / 4 * u + u + 5 / 4 * u * u) * u) * Rabs S <= (13 / 4 * u + 8 * (u * u)) * Rabs S).
  { apply Rmult_le_compat_r; [exact P |].
    replace ((5 / 4 * u + u + 5 / 4 * u * u) * u) with (9 / 4 * (u * u) + 5 / 4 * (u * (u * u))) by field. lra. }
  replace (argument - (S - b)) with ((argument - (logit - b)) + (logit - S)) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.
