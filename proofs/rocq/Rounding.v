(** One rounding to binary32, seen apart from the solvers: what is exact, what is near, what stays
    finite. Section 0.

    Each theorem names the lemma that it confirms. The solvers were given integers or bits; here a
    rounding is Flocq's, of any real number. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core Relative Sterbenz Mult_error Plus_error.
From dmverify Require Import Binary32 Sums Casts.
Open Scope R_scope.

Lemma rnd_le : forall x y, x <= y -> rnd x <= rnd y.
Proof. intros x y H. unfold rnd. apply round_le; [apply fexp_valid | apply valid_rnd_N | exact H]. Qed.

Lemma format_power : forall e, (emin <= e)%Z -> binary32 (bpow radix2 e).
Proof. intros e H. apply generic_format_bpow. unfold fexp, FLT_exp, prec, emin in *. lia. Qed.

Lemma rnd_within : forall x b, binary32 b -> Rabs x <= b -> Rabs (rnd x) <= b.
Proof. intros x b F H. unfold rnd. apply abs_round_le_generic; [apply fexp_valid | apply valid_rnd_N | exact F | exact H]. Qed.

(** rn-error, both ways: relative to the number and to the result. *)
Theorem rounding_error :
  forall x, bpow radix2 (emin + prec - 1) <= Rabs x ->
  Rabs (rnd x - x) <= u * Rabs x /\ Rabs (rnd x - x) <= u * Rabs (rnd x).
Proof.
  intros x H. split.
  - assert (E := relative_error_N_FLT radix2 emin prec prec_positive (fun z => negb (Z.even z)) x H).
    exact E.
  - assert (E := relative_error_N_FLT_round radix2 emin prec prec_positive (fun z => negb (Z.even z)) x H).
    exact E.
Qed.

(** The error relative to the result, with what underflow adds. *)
Lemma rounding_error_of_result : forall x, Rabs (rnd x - x) <= u * Rabs (rnd x) + eta.
Proof.
  intro x. assert (U := u_positive). assert (E0 := eta_positive).
  destruct (Rle_or_lt (bpow radix2 (emin + prec - 1)) (Rabs x)) as [N | S].
  - destruct (rounding_error x N) as (_ & E). lra.
  - assert (E : Rabs (rnd x - x) <= / 2 * ulp radix2 fexp x) by apply (error_le_half_ulp radix2 fexp (fun z => negb (Z.even z)) x).
    unfold fexp in E. rewrite ulp_FLT_small in E; [| apply prec_positive |].
    + fold eta in E. assert (0 <= u * Rabs (rnd x)) by (apply Rmult_le_pos; [lra | apply Rabs_pos]). lra.
    + eapply Rlt_le_trans. exact S. apply bpow_le. lia.
Qed.

(** Half the last place of the binade above: max-argument at e = 20, window-argument at e = 24. *)
Theorem half_place :
  forall x e, (emin + prec <= e)%Z -> Rabs x < bpow radix2 e -> Rabs (rnd x - x) <= bpow radix2 (e - 25).
Proof.
  intros x e He H.
  assert (E : Rabs (rnd x - x) <= / 2 * ulp radix2 fexp x) by apply (error_le_half_ulp radix2 fexp (fun z => negb (Z.even z)) x).
  assert (L : ulp radix2 fexp x <= bpow radix2 (e - 24)).
  { destruct (Req_dec x 0) as [Z | N].
    - rewrite Z. unfold fexp. rewrite ulp_FLT_0 by apply prec_positive. apply bpow_le. unfold emin, prec in *. lia.
    - rewrite ulp_neq_0 by exact N. apply bpow_le. unfold cexp, fexp, FLT_exp.
      assert (M := mag_le_bpow radix2 x e N H). unfold prec, emin in *. lia. }
  replace (e - 25)%Z with (- (1) + (e - 24))%Z by ring. rewrite bpow_plus.
  change (bpow radix2 (- (1))) with (/ 2). lra.
Qed.

(** max-argument: b = rnd (m - 8) misses by at most 2^-5. *)
Corollary max_argument :
  forall m, Rabs (m - 8) < bpow radix2 20 -> Rabs (m - rnd (m - 8) - 8) <= / 32.
Proof.
  intros m H. assert (E := half_place (m - 8) 20 ltac:(unfold emin, prec; lia) H).
  replace (m - rnd (m - 8) - 8) with (- (rnd (m - 8) - (m - 8))) by ring. rewrite Rabs_Ropp.
  simpl in E. lra.
Qed.

Lemma small_integers : forall n, (Z.abs n < 16777216)%Z -> binary32 (IZR n).
Proof.
  intros n H. apply generic_format_FLT. exists (Float radix2 n 0); simpl.
  - unfold F2R. simpl. ring.
  - unfold prec. simpl. lia.
  - unfold emin. lia.
Qed.

(** window-argument: at most a half, and integers below 2^24 are numbers of the format. *)
Theorem window_argument :
  forall m n, Rabs (m - 8) < bpow radix2 24 -> (Z.abs n < 16777216)%Z ->
  Rabs (m - rnd (m - 8) - 8) <= / 2 /\ rnd (IZR n) = IZR n.
Proof.
  intros m n H N. split.
  - assert (E := half_place (m - 8) 24 ltac:(unfold emin, prec; lia) H).
    replace (m - rnd (m - 8) - 8) with (- (rnd (m - 8) - (m - 8))) by ring. rewrite Rabs_Ropp.
    simpl in E. lra.
  - unfold rnd. apply round_generic; [apply valid_rnd_N | apply small_integers; exact N].
Qed.

(** alpha-at-most-one: a reference that does not fall gives a weight's exponent of at most 0. *)
Theorem no_positive_exponent : forall old new, old <= new -> rnd (old - new) <= 0.
Proof. intros old new H. rewrite <- rnd_0. apply rnd_le. lra. Qed.

(** sterbenz. *)
Theorem near_differences :
  forall x y, binary32 x -> binary32 y -> y / 2 <= x <= 2 * y -> rnd (x - y) = x - y.
Proof.
  intros x y X Y H. unfold rnd. apply round_generic; [apply valid_rnd_N |].
  apply sterbenz; [apply fexp_valid | apply fexp_monotone | exact X | exact Y | exact H].
Qed.

(** rescale-exact: halving is exact from 2^-125 on. *)
Theorem halving :
  forall x, binary32 x -> bpow radix2 (- 125) <= Rabs x -> rnd (x / 2) = x / 2.
Proof.
  intros x F H. unfold rnd. apply round_generic; [apply valid_rnd_N |].
  replace (x / 2) with (x * bpow radix2 (- (1))) by (change (bpow radix2 (- (1))) with (/ 2); reflexivity).
  apply mult_bpow_exact_FLT; [exact F |].
  assert (M := mag_ge_bpow radix2 x (- 124)). specialize (M H). unfold emin, prec. lia.
Qed.

(** flush-to-zero: what rounds to less than the least normal number is less than it. *)
Theorem flushed_numbers :
  forall x, Rabs (rnd x) < bpow radix2 (emin + prec - 1) -> Rabs x < bpow radix2 (emin + prec - 1).
Proof.
  intros x H. destruct (Rlt_or_le (Rabs x) (bpow radix2 (emin + prec - 1))) as [L | L]; [exact L |].
  exfalso. apply (Rlt_not_le _ _ H). unfold rnd.
  apply abs_round_ge_generic; [apply fexp_valid | apply valid_rnd_N | | exact L].
  apply format_power. unfold emin, prec. lia.
Qed.

(** finite-arguments: no overflow, 2^128 is far. *)
Theorem finite_differences :
  forall s b, Rabs s <= bpow radix2 126 -> Rabs b <= bpow radix2 126 -> Rabs (rnd (s - b)) <= bpow radix2 127.
Proof.
  intros s b S B. apply rnd_within; [apply format_power; unfold emin; lia |].
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp.
  replace 127%Z with (1 + 126)%Z by ring. rewrite bpow_plus. simpl (bpow radix2 1). lra.
Qed.

(** dead-row: 1 / l is finite from 2^-127 on. *)
Theorem finite_reciprocal : forall l, bpow radix2 (- 127) <= l -> 0 <= rnd (/ l) <= bpow radix2 127.
Proof.
  intros l H. assert (P := bpow_gt_0 radix2 (- 127)). assert (L : 0 < / l) by (apply Rinv_0_lt_compat; lra).
  split.
  - rewrite <- rnd_0. apply rnd_le. lra.
  - apply rnd_below; [apply format_power; unfold emin; lia |].
    replace 127%Z with (- (- 127))%Z by ring. rewrite bpow_opp. apply Rinv_le; assumption.
Qed.

(** ds-code-bound. *)
Theorem code_times_share : forall p y, Rabs p <= 448 -> Rabs y <= 1 -> Rabs (rnd (p * y)) <= 448.
Proof.
  intros p y P Y. apply rnd_within.
  - apply (small_integers 448). reflexivity.
  - rewrite Rabs_mult. replace 448 with (448 * 1) by ring. apply Rmult_le_compat; try apply Rabs_pos; assumption.
Qed.

(** promotion-step, with underflow: the error before it, the partial output's, and u times what came out. *)
Theorem promotion :
  forall t t' s O O', Rabs (rnd (t' * s + O') - (t * s + O)) <=
    Rabs (O' - O) + Rabs s * Rabs (t' - t) + u * Rabs (rnd (t' * s + O')) + eta.
Proof.
  intros t t' s O O'. assert (E := rounding_error_of_result (t' * s + O')).
  replace (rnd (t' * s + O') - (t * s + O))
    with ((O' - O) + s * (t' - t) + (rnd (t' * s + O') - (t' * s + O'))) by ring.
  eapply Rle_trans. apply Rabs_triang.
  assert (T := Rabs_triang (O' - O) (s * (t' - t))). rewrite Rabs_mult in T. lra.
Qed.

(** two-roundings: RN(x RN(y)), where neither underflows. *)
Theorem two_roundings :
  forall x y, bpow radix2 (emin + prec - 1) <= Rabs y -> bpow radix2 (emin + prec - 1) <= Rabs (x * rnd y) ->
  Rabs (rnd (x * rnd y) - x * y) <= (2 * u + u * u) * Rabs (x * y).
Proof.
  intros x y Y XY. destruct (rounding_error y Y) as (E1 & _). destruct (rounding_error _ XY) as (E2 & _).
  assert (U := u_positive).
  assert (D : Rabs (x * rnd y - x * y) <= u * Rabs (x * y)).
  { replace (x * rnd y - x * y) with (x * (rnd y - y)) by ring. rewrite !Rabs_mult.
    replace (u * (Rabs x * Rabs y)) with (Rabs x * (u * Rabs y)) by ring. apply Rmult_le_compat_l; [apply Rabs_pos | exact E1]. }
  assert (S : Rabs (x * rnd y) <= Rabs (x * y) + u * Rabs (x * y)).
  { replace (x * rnd y) with (x * y + (x * rnd y - x * y)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  replace (rnd (x * rnd y) - x * y) with ((rnd (x * rnd y) - x * rnd y) + (x * rnd y - x * y)) by ring.
  eapply Rle_trans. apply Rabs_triang.
  assert (u * Rabs (x * rnd y) <= u * (Rabs (x * y) + u * Rabs (x * y))) by (apply Rmult_le_compat_l; lra).
  replace ((2 * u + u * u) * Rabs (x * y)) with (u * (Rabs (x * y) + u * Rabs (x * y)) + u * Rabs (x * y)) by ring. lra.
Qed.

(** exact-dot-float64: products are whole numbers of 2^-18, at most (448 2^9)^2 of them each; up to
    2^17 of them add up without rounding in binary64, in any order. *)
Definition rnd64 := round radix2 (FLT_exp (- 1074) 53) ZnearestE.

Inductive whole_sum := Term (k : Z) | Both (l r : whole_sum).

Fixpoint count (t : whole_sum) : Z := match t with Term _ => 1 | Both l r => count l + count r end.
Fixpoint exact_sum (t : whole_sum) : Z := match t with Term k => k | Both l r => exact_sum l + exact_sum r end.
Fixpoint sum64 (t : whole_sum) : R := match t with Term k => IZR k | Both l r => rnd64 (sum64 l + sum64 r) end.
Fixpoint products_of_codes (t : whole_sum) : Prop :=
  match t with Term k => (Z.abs k <= (448 * 512) * (448 * 512))%Z | Both l r => products_of_codes l /\ products_of_codes r end.

Theorem exact_in_float64 :
  forall t, products_of_codes t -> (count t <= 131072)%Z -> sum64 t = IZR (exact_sum t).
Proof.
  assert (B : forall t, products_of_codes t -> (Z.abs (exact_sum t) <= count t * ((448 * 512) * (448 * 512)))%Z).
  { induction t as [k | l IHl r IHr]; cbn [products_of_codes exact_sum count]; [lia |]. intros (L & R). specialize (IHl L). specialize (IHr R). lia. }
  assert (C : forall t, (1 <= count t)%Z) by (induction t; simpl; lia).
  assert (F : forall n, (Z.abs n <= 9007199254740992)%Z -> rnd64 (IZR n) = IZR n).
  { intros n H. unfold rnd64. apply round_generic; [apply valid_rnd_N |].
    destruct (Z.eq_dec (Z.abs n) 9007199254740992) as [E | N].
    - assert (D : (n = 9007199254740992 \/ n = - 9007199254740992)%Z) by lia.
      assert (G : generic_format radix2 (FLT_exp (- 1074) 53) (bpow radix2 53)).
      { apply generic_format_bpow. unfold FLT_exp. lia. }
      destruct D as [-> | ->]; [exact G |].
      replace (IZR (- 9007199254740992)) with (- bpow radix2 53) by (simpl; lra). apply generic_format_opp. exact G.
    - apply generic_format_FLT. exists (Float radix2 n 0); [unfold F2R; simpl; ring | simpl; lia | simpl; lia]. }
  induction t as [k | l IHl r IHr]; intros P N; [reflexivity |].
  assert (BT := B _ P). destruct P as (L & R). assert (Cl := C l). assert (Cr := C r).
  cbn [sum64 exact_sum count] in *. rewrite IHl, IHr by (assumption || lia).
  rewrite <- plus_IZR. apply F. lia.
Qed.

(** relative-composition. *)
Theorem composed :
  forall a b A B, Rabs a <= A -> Rabs b <= B -> Rabs ((1 + a) * (1 + b) - 1) <= compound A B.
Proof.
  intros a b A B HA HB. unfold compound. replace ((1 + a) * (1 + b) - 1) with (a + b + a * b) by ring.
  eapply Rle_trans. apply Rabs_triang. assert (T := Rabs_triang a b). rewrite Rabs_mult.
  assert (Rabs a * Rabs b <= A * B) by (apply Rmult_le_compat; try apply Rabs_pos; assumption). lra.
Qed.
