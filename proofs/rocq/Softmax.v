(** The exponentials of two passes: how far their arguments' references are, what they differ by.

    Section 2. [x] is a logit in base 2, [b] its window's reference, [R] the running one, [M] the
    saved one, an integer 8 above the largest b rounded up, [P] the probability. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32.
Open Scope R_scope.

Definition log2 x := ln x / ln 2.

(** exp2-chord at 0, of which ln 2 is the slope. *)
Definition chord := 6935 / 10000.

Lemma exp_double : forall a b x, 0 <= a -> a <= exp x -> b <= a * a -> b <= exp (2 * x).
Proof.
  intros a b x A H B. replace (2 * x) with (x + x) by ring. rewrite exp_plus.
  apply Rle_trans with (a * a); [exact B |]. apply Rmult_le_compat; assumption.
Qed.

Lemma ln2_positive : 0 < ln 2.
Proof. rewrite <- ln_1. apply ln_increasing; lra. Qed.

(** exp(chord) is at least (1 + chord / 1024)^1024, and that is at least 2, by ten squarings. *)
Lemma ln2_below_chord : ln 2 <= chord.
Proof.
  set (h := chord / 1024).
  assert (H0 : 1000677246093 / 1000000000000 <= exp h).
  { apply Rle_trans with (1 + h); [unfold h, chord; lra |]. left. apply exp_ineq1. apply Rgt_not_eq. unfold h, chord. lra. }
  assert (H1 := exp_double (1000677246093 / 1000000000000) (15646171107 / 15625000000) _ ltac:(lra) H0 ltac:(lra)). clear H0.
  assert (H2 := exp_double (15646171107 / 15625000000) (1002711737587 / 1000000000000) _ ltac:(lra) H1 ltac:(lra)). clear H1.
  assert (H3 := exp_double (1002711737587 / 1000000000000) (502715414347 / 500000000000) _ ltac:(lra) H2 ltac:(lra)). clear H2.
  assert (H4 := exp_double (502715414347 / 500000000000) (126361393911 / 125000000000) _ ltac:(lra) H3 ltac:(lra)). clear H3.
  assert (H5 := exp_double (126361393911 / 125000000000) (127737614969 / 125000000000) _ ltac:(lra) H4 ltac:(lra)). clear H4.
  assert (H6 := exp_double (127737614969 / 125000000000) (1044281489789 / 1000000000000) _ ltac:(lra) H5 ltac:(lra)). clear H5.
  assert (H7 := exp_double (1044281489789 / 1000000000000) (218104765983 / 200000000000) _ ltac:(lra) H6 ltac:(lra)). clear H6.
  assert (H8 := exp_double (218104765983 / 200000000000) (297310555903 / 250000000000) _ ltac:(lra) H7 ltac:(lra)). clear H7.
  assert (H9 := exp_double (297310555903 / 250000000000) (1414297066421 / 1000000000000) _ ltac:(lra) H8 ltac:(lra)). clear H8.
  assert (H10 := exp_double (1414297066421 / 1000000000000) (2000236192087 / 1000000000000) _ ltac:(lra) H9 ltac:(lra)). clear H9.
  match type of H10 with _ <= exp ?y => replace y with chord in H10 by (unfold h; field) end.
  rewrite <- (ln_exp chord).
  destruct (Req_dec 2 (exp chord)) as [<- | N]; [lra |]. left. apply ln_increasing; lra.
Qed.

Lemma ln_le : forall x y, 0 < x -> x <= y -> ln x <= ln y.
Proof.
  intros x y P H. destruct (Req_dec x y) as [-> | N]; [lra |]. left. apply ln_increasing; lra.
Qed.

(** The distances of a logit from its references. Premises: a window's largest logit is at most
    r above b + 8 (window-argument), b and R are at most M - 8, b at most 32 above R. *)
Theorem windows :
  forall x b R M r below, 0 <= r -> x <= b + 8 + r -> b <= M - 8 -> R <= M - 8 -> b - R <= 32 ->
  Rabs (x - M) <= below ->
  Rabs (x - b) + Rabs (x - M) + Rabs (b - R) <=
    Rmax (8 + r) below + below + Rmax 32 (below + r).
Proof.
  intros x b R M r below Hr Hx Hb HR Hl Hm. apply Rabs_le_inv in Hm.
  assert (X := Rmax_l (8 + r) below). assert (X' := Rmax_r (8 + r) below).
  assert (Y := Rmax_l 32 (below + r)). assert (Y' := Rmax_r 32 (below + r)).
  assert (Rabs (x - b) <= Rmax (8 + r) below) by (apply Rabs_le; lra).
  assert (Rabs (b - R) <= Rmax 32 (below + r)) by (apply Rabs_le; lra).
  assert (Rabs (x - M) <= below) by (apply Rabs_le; lra). lra.
Qed.

(** ... and from M, by the probability itself. *)
Theorem below_reference :
  forall x M l n P, 2 <= n -> / 4 < l <= 2 * n -> 0 < P -> P * l = Rpower 2 (x - M) ->
  Rabs (x - M) <= Rabs (log2 P) + log2 n + 1.
Proof.
  intros x M l n P Hn Hl HP E. assert (L2 := ln2_positive).
  assert (E1 : x - M = log2 P + log2 l).
  { apply (f_equal ln) in E. rewrite ln_mult in E by lra. unfold Rpower in E. rewrite ln_exp in E.
    unfold log2. apply Rmult_eq_reg_r with (ln 2); [| lra]. rewrite <- E. field. lra. }
  assert (N : 1 <= log2 n).
  { unfold log2. apply Rmult_le_reg_r with (ln 2); [lra |]. unfold Rdiv.
    rewrite Rmult_assoc, Rinv_l, Rmult_1_l, Rmult_1_r by lra. apply ln_le; lra. }
  assert (U : log2 l <= log2 n + 1).
  { unfold log2. apply Rmult_le_reg_r with (ln 2); [lra |].
    replace (ln l / ln 2 * ln 2) with (ln l) by (field; lra).
    replace ((ln n / ln 2 + 1) * ln 2) with (ln n + ln 2) by (field; lra).
    rewrite <- ln_mult by lra. apply ln_le; lra. }
  assert (D : - 2 <= log2 l).
  { unfold log2. apply Rmult_le_reg_r with (ln 2); [lra |].
    replace (ln l / ln 2 * ln 2) with (ln l) by (field; lra).
    replace (- 2 * ln 2) with (ln (/ 4)).
    - apply ln_le; lra.
    - rewrite ln_Rinv by lra. replace 4 with (2 * 2) by ring. rewrite ln_mult by lra. ring. }
  rewrite E1. assert (A := Rle_abs (log2 P)). assert (B := Rle_abs (- log2 P)).
  rewrite Rabs_Ropp in B. apply Rabs_le. lra.
Qed.

(** stale-maximum as it is computed: R + 32 is formed in binary32, without rounding while
    |R| + 32 <= 2^24; the reference never falls, and b stays at most 32 above it. *)
Theorem lazy_reference :
  forall (R : Z) b, (Z.abs R + 32 <= 16777216)%Z ->
  let moves := Rlt_dec (rnd (IZR R + 32)) b in
  let next := if moves then Zceil b else R in
  rnd (IZR R + 32) = IZR R + 32 /\ b - IZR next <= 32 /\ (R <= next)%Z.
Proof.
  intros R b H moves next.
  assert (E : rnd (IZR R + 32) = IZR R + 32).
  { rewrite <- (plus_IZR R 32). unfold rnd. apply round_generic; [apply valid_rnd_N |].
    destruct (Z.eq_dec (Z.abs (R + 32)) 16777216) as [T | T].
    - assert (C : (R + 32 = 16777216 \/ R + 32 = - 16777216)%Z) by lia.
      assert (B : binary32 (bpow radix2 24)).
      { apply generic_format_bpow. unfold fexp, FLT_exp, prec, emin. lia. }
      destruct C as [C | C]; rewrite C.
      + exact B.
      + replace (-16777216) with (- bpow radix2 24) by (simpl; lra). apply generic_format_opp. exact B.
    - apply generic_format_FLT. exists (Float radix2 (R + 32) 0); simpl.
      + unfold F2R. simpl. ring.
      + unfold prec. simpl. lia.
      + unfold emin. lia. }
  split; [exact E |]. unfold next, moves. rewrite E. clear moves next.
  destruct (Rlt_dec (IZR R + 32) b) as [L | L].
  - assert (C : b <= IZR (Zceil b)) by apply Zceil_ub. split; [lra |].
    apply le_IZR. lra.
  - apply Rnot_lt_le in L. split; [lra | lia].
Qed.

Lemma ln_near_1 : forall e E, 0 <= E < 1 -> Rabs e <= E -> Rabs (ln (1 + e)) <= inverse E.
Proof.
  intros e E HE He. apply Rabs_le_inv in He.
  assert (P : ln (1 + e) <= e).
  { destruct (Req_dec e 0) as [Z | Z]; [rewrite Z, Rplus_0_r, ln_1; lra |].
    left. rewrite <- (ln_exp e) at 2. apply ln_increasing; [lra |]. apply exp_ineq1. exact Z. }
  assert (Q : - ln (1 + e) <= / (1 + e) - 1).
  { rewrite <- ln_Rinv by lra. set (y := / (1 + e) - 1).
    replace (/ (1 + e)) with (1 + y) by (unfold y; ring).
    assert (0 < 1 + y) by (unfold y; replace (1 + (/ (1 + e) - 1)) with (/ (1 + e)) by ring; apply Rinv_0_lt_compat; lra).
    destruct (Req_dec y 0) as [Z | Z]; [rewrite Z, Rplus_0_r, ln_1; lra |].
    left. rewrite <- (ln_exp y) at 2. apply ln_increasing; [lra |]. apply exp_ineq1. exact Z. }
  assert (I : / (1 + e) - 1 <= inverse E).
  { unfold inverse. apply Rmult_le_reg_r with ((1 + e) * (1 - E)); [apply Rmult_lt_0_compat; lra |].
    replace ((/ (1 + e) - 1) * ((1 + e) * (1 - E))) with (- e * (1 - E)) by (field; lra).
    replace (E / (1 - E) * ((1 + e) * (1 - E))) with (E * (1 + e)) by (field; lra).
    assert (0 <= E * (E + e)) by (apply Rmult_le_pos; lra). nra. }
  assert (J : E <= inverse E).
  { unfold inverse. apply Rmult_le_reg_r with (1 - E); [lra |].
    replace (E / (1 - E) * (1 - E)) with E by (field; lra). nra. }
  apply Rabs_le. lra.
Qed.

(** By how much the two passes' exponentials differ. The backward forms 2^A with A = x - M, the
    forward 2^B 2^C with B = x - b, C = b - R, and exact powers of two 2^S; a, b', c are the
    arguments' roundings, e_i the errors of ex2, at most E. *)
Theorem two_passes :
  forall A B C S a b c e1 e2 e3 E A' B' C', 0 <= E < 1 -> A = B + C + S ->
  Rabs a <= u * A' -> Rabs b <= u * B' -> Rabs c <= u * C' ->
  Rabs e1 <= E -> Rabs e2 <= E -> Rabs e3 <= E ->
  let backward := Rpower 2 (A + a) * (1 + e1) in
  let forward := Rpower 2 (B + b) * (1 + e2) * (Rpower 2 (C + c) * (1 + e3)) * Rpower 2 S in
  Rabs (ln (backward / forward)) <= chord * u * (B' + A' + C') + 3 * inverse E.
Proof.
  intros A B C S a b c e1 e2 e3 E A' B' C' HE HA Ha Hb Hc H1 H2 H3 backward forward.
  assert (L1 := ln_near_1 e1 E HE H1). assert (L2 := ln_near_1 e2 E HE H2).
  assert (L3 := ln_near_1 e3 E HE H3).
  assert (P1 : 0 < 1 + e1) by (apply Rabs_le_inv in H1; lra).
  assert (P2 : 0 < 1 + e2) by (apply Rabs_le_inv in H2; lra).
  assert (P3 : 0 < 1 + e3) by (apply Rabs_le_inv in H3; lra).
  assert (PP : forall y, 0 < Rpower 2 y) by (intro y; unfold Rpower; apply exp_pos).
  assert (LP : forall y, ln (Rpower 2 y) = y * ln 2) by (intro y; unfold Rpower; apply ln_exp).
  assert (F : 0 < forward).
  { unfold forward. repeat apply Rmult_lt_0_compat; auto. }
  assert (Bk : 0 < backward) by (unfold backward; apply Rmult_lt_0_compat; auto).
  assert (T : ln (backward / forward) = ln 2 * (a - b - c) + (ln (1 + e1) - ln (1 + e2) - ln (1 + e3))).
  { unfold Rdiv. rewrite ln_mult by (try apply Rinv_0_lt_compat; assumption). rewrite ln_Rinv by assumption.
    unfold backward, forward.
    rewrite !ln_mult by (repeat apply Rmult_lt_0_compat; auto). rewrite !LP, HA. ring. }
  rewrite T. eapply Rle_trans. apply Rabs_triang. apply Rplus_le_compat.
  - rewrite Rabs_mult, (Rabs_right (ln 2)) by (left; apply ln2_positive).
    assert (D : Rabs (a - b - c) <= u * (B' + A' + C')).
    { apply Rabs_le_inv in Ha. apply Rabs_le_inv in Hb. apply Rabs_le_inv in Hc. apply Rabs_le. lra. }
    assert (D0 := Rabs_pos (a - b - c)). assert (L := ln2_below_chord). assert (L0 := ln2_positive).
    replace (chord * u * (B' + A' + C')) with (chord * (u * (B' + A' + C'))) by ring.
    apply Rmult_le_compat; lra.
  - apply Rabs_le_inv in L1. apply Rabs_le_inv in L2. apply Rabs_le_inv in L3. apply Rabs_le. lra.
Qed.

(** lambda of a key whose P is [below] under M in base 2, as the code computes it. *)
Definition lambda below r E :=
  chord * u * (Rmax (8 + r) below + below + Rmax 32 (below + r)) + 3 * inverse E.
