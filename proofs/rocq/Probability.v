(** What the softmax's roundings leave of sum P = 1 (norm), and of P against the forward (prob).

    Sections 1 and 2. Keys j < n; [p j] the exact shares of the forward's exponentials, sum 1; [P j]
    the backward's probabilities. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Ledger Softmax.
Open Scope R_scope.

Lemma exp_both : forall t l, Rabs t <= l -> Rabs (exp t - 1) <= exp l - 1.
Proof.
  intros t l H. apply Rabs_le_inv in H.
  assert (U : exp t <= exp l) by (destruct (Req_dec t l) as [-> | N]; [lra | left; apply exp_increasing; lra]).
  assert (D : exp (- l) <= exp t) by (destruct (Req_dec t (- l)) as [-> | N]; [lra | left; apply exp_increasing; lra]).
  assert (M : 1 - exp (- l) <= exp l - 1).
  { rewrite exp_Ropp. assert (P := exp_pos l). set (y := exp l) in *.
    apply Rmult_le_reg_r with y; [lra |].
    replace ((1 - / y) * y) with (y - 1) by (field; lra). replace ((y - 1) * y) with ((y - 1) * (y - 1) + (y - 1)) by ring.
    assert (0 <= (y - 1) * (y - 1)) by apply Rle_0_sqr. lra. }
  apply Rabs_le. lra.
Qed.

Theorem inverse_of_sum : forall sigma s, 0 <= s < 1 -> Rabs sigma <= s -> Rabs (/ (1 + sigma) - 1) <= inverse s.
Proof.
  intros sigma s Hs H. apply Rabs_le_inv in H. unfold inverse.
  assert (P : 0 < (1 + sigma) * (1 - s)) by (apply Rmult_lt_0_compat; lra).
  apply Rabs_le. split.
  - apply Rmult_le_reg_r with ((1 + sigma) * (1 - s)); [exact P |].
    replace (- (s / (1 - s)) * ((1 + sigma) * (1 - s))) with (- s * (1 + sigma)) by (field; lra).
    replace ((/ (1 + sigma) - 1) * ((1 + sigma) * (1 - s))) with (- sigma * (1 - s)) by (field; lra). nra.
  - apply Rmult_le_reg_r with ((1 + sigma) * (1 - s)); [exact P |].
    replace (s / (1 - s) * ((1 + sigma) * (1 - s))) with (s * (1 + sigma)) by (field; lra).
    replace ((/ (1 + sigma) - 1) * ((1 + sigma) * (1 - s))) with (- sigma * (1 - s)) by (field; lra). nra.
Qed.

(** norm: P_j = p_j exp(theta_j) (1 + rho_j) / (1 + sigma), sigma the relative error of l as a sum,
    rho_j the roundings of the quotient, f what underflow takes of one key. *)
Theorem unit_sum :
  forall n (p P theta lam rho : nat -> R) sigma s q f,
  (forall j, (j < n)%nat -> 0 <= p j) -> Sum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (theta j) <= lam j) ->
  (forall j, (j < n)%nat -> Rabs (rho j) <= q) ->
  0 <= s < 1 -> Rabs sigma <= s ->
  (forall j, (j < n)%nat -> Rabs (P j - p j * exp (theta j) * (1 + rho j) / (1 + sigma)) <= f) ->
  Rabs (1 - Sum n P) <=
    compound (compound (Sum n (fun j => p j * (exp (lam j) - 1))) (inverse s)) q + INR n * f.
Proof.
  intros n p P theta lam rho sigma s q f Hp H1 Ht Hr Hs Hsig HP.
  set (D := Sum n (fun j => p j * (exp (lam j) - 1))).
  set (Y := Sum n (fun j => p j * exp (theta j) * (1 + rho j))).
  assert (F : Rabs (Sum n P - Y * / (1 + sigma)) <= INR n * f).
  { unfold Y. rewrite (Rmult_comm _ (/ (1 + sigma))), <- Sum_scale, <- Sum_minus.
    eapply Rle_trans. apply Sum_abs.
    eapply Rle_trans. apply Sum_le with (g := fun _ => f). intros i I.
    replace (P i - / (1 + sigma) * (p i * exp (theta i) * (1 + rho i)))
      with (P i - p i * exp (theta i) * (1 + rho i) / (1 + sigma)) by (unfold Rdiv; ring).
    apply HP. exact I.
    clear. induction n as [| n IH]; [simpl; lra |]. rewrite S_INR. simpl Sum. lra. }
  assert (Q0 : 0 <= q \/ n = O).
  { destruct n as [| k]; [right; reflexivity | left]. eapply Rle_trans. apply Rabs_pos. apply (Hr O). lia. }
  assert (N0 : n <> O).
  { intro Z. subst n. simpl in H1. lra. }
  destruct Q0 as [Q0 | Z]; [| contradiction].
  assert (DP : 0 <= D).
  { unfold D. rewrite <- (Sum_0 n). apply Sum_le. intros i I. apply Rmult_le_pos; [apply Hp; exact I |].
    assert (T := exp_both _ _ (Ht i I)). assert (Z := Rabs_pos (exp (theta i) - 1)). lra. }
  assert (YB : Rabs (Y - 1) <= compound D q).
  { replace (Y - 1) with (Y - Sum n p) by (rewrite H1; ring). unfold Y. rewrite <- Sum_minus.
    eapply Rle_trans. apply Sum_abs.
    eapply Rle_trans. apply Sum_le with (g := fun i => p i * (exp (lam i) - 1) * (1 + q) + q * p i).
    - intros i I. cbv beta. assert (E := exp_both _ _ (Ht i I)). assert (R := Hr i I). assert (Z := Hp i I).
      replace (p i * exp (theta i) * (1 + rho i) - p i)
        with (p i * ((exp (theta i) - 1) * (1 + rho i) + rho i)) by ring.
      rewrite Rabs_mult, (Rabs_right (p i)) by lra.
      replace (p i * (exp (lam i) - 1) * (1 + q) + q * p i)
        with (p i * ((exp (lam i) - 1) * (1 + q) + q)) by ring.
      apply Rmult_le_compat_l; [exact Z |].
      eapply Rle_trans. apply Rabs_triang. apply Rplus_le_compat; [| exact R].
      rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; [exact E |].
      eapply Rle_trans. apply Rabs_triang. rewrite Rabs_R1. lra.
    - rewrite Sum_plus, Sum_scale, H1.
      rewrite (Sum_ext n _ (fun i => (1 + q) * (p i * (exp (lam i) - 1)))) by (intros; ring).
      rewrite Sum_scale. fold D. unfold compound. lra. }
  assert (I := inverse_of_sum sigma s Hs Hsig). set (tau := / (1 + sigma) - 1) in *.
  assert (SI : 0 <= inverse s) by (eapply Rle_trans; [apply Rabs_pos | exact I]).
  assert (X : Rabs (Y * / (1 + sigma) - 1) <= compound (compound D (inverse s)) q).
  { replace (Y * / (1 + sigma) - 1) with ((Y - 1) + tau + (Y - 1) * tau) by (unfold tau; ring).
    assert (M : Rabs ((Y - 1) * tau) <= compound D q * inverse s).
    { rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; assumption. }
    eapply Rle_trans. apply Rabs_triang. assert (T := Rabs_triang (Y - 1) tau).
    replace (compound (compound D (inverse s)) q)
      with (compound D q + inverse s + compound D q * inverse s) by (unfold compound; ring). lra. }
  replace (1 - Sum n P) with (- ((Sum n P - Y * / (1 + sigma)) + (Y * / (1 + sigma) - 1))) by ring.
  rewrite Rabs_Ropp. eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** The exact share by the backward's own number. *)
Theorem share_from_backward :
  forall p P pi f, 0 <= p -> 0 <= pi < 1 -> 0 <= f -> Rabs (P - p) <= pi * p + f ->
  p <= (P + f) * (1 + inverse pi) /\ Rabs (P - p) <= inverse pi * (P + f) + f.
Proof.
  intros p P pi f Hp Hpi Hf H. apply Rabs_le_inv in H.
  assert (A : p * (1 - pi) <= P + f) by nra.
  assert (B : p <= (P + f) * (1 + inverse pi)).
  { unfold inverse. replace ((P + f) * (1 + pi / (1 - pi))) with ((P + f) / (1 - pi)) by (field; lra).
    apply Rmult_le_reg_r with (1 - pi); [lra |].
    replace ((P + f) / (1 - pi) * (1 - pi)) with (P + f) by (field; lra). exact A. }
  split; [exact B |].
  assert (C : pi * p <= inverse pi * (P + f)).
  { unfold inverse in *. replace (pi / (1 - pi) * (P + f)) with (pi * ((P + f) * (1 + pi / (1 - pi)))) by (field; lra).
    apply Rmult_le_compat_l; lra. }
  apply Rabs_le. lra.
Qed.

(** prob where l is the sum of the unrounded exponentials: [P' j] the forward's probability, within
    eps of its exact share, the backward's within pi. *)
Theorem prob_unrounded :
  forall n (P P' p eps pi dP : nat -> R) f, 0 <= f ->
  (forall j, (j < n)%nat -> 0 <= p j /\ 0 <= pi j < 1) ->
  (forall j, (j < n)%nat -> Rabs (P' j - p j) <= eps j) ->
  (forall j, (j < n)%nat -> Rabs (P j - p j) <= pi j * p j + f) ->
  Rabs (Sum n (fun j => (P j - P' j) * dP j)) <=
    Sum n (fun j => (eps j + inverse (pi j) * (P j + f) + f) * Rabs (dP j)).
Proof.
  intros n P P' p eps pi dP f Hf Hp HQ HP. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J.
  destruct (Hp j J) as (P0 & Pi). destruct (share_from_backward (p j) (P j) (pi j) f P0 Pi Hf (HP j J)) as (_ & B).
  rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos |].
  assert (Q := HQ j J). apply Rabs_le_inv in Q. apply Rabs_le_inv in B. apply Rabs_le. lra.
Qed.

(** prob where the normaliser is the sum of the codes themselves: [w j] a code's share, within eps
    of the exact one, nu the error of their sum and its reciprocal. The codes' common loss E moves
    all probabilities together, and is multiplied with |sum P dP| alone. *)
Theorem prob_codes :
  forall n (P p w eps pi dP : nat -> R) nu nu' f, 0 <= f ->
  (forall j, (j < n)%nat -> 0 <= p j /\ 0 <= pi j < 1 /\ 0 <= w j /\ 0 <= eps j) -> Sum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (w j - p j) <= eps j) ->
  (forall j, (j < n)%nat -> Rabs (P j - p j) <= pi j * p j + f) ->
  Rabs nu' <= nu -> Sum n eps < 1 ->
  let E := Sum n eps in
  Rabs (Sum n (fun j => (P j - w j * (1 + nu') / Sum n w) * dP j)) <=
    Sum n (fun j => (eps j + compound (inverse (pi j)) nu * (P j + f + eps j) + f) / (1 - E) * Rabs (dP j))
    + Rabs (Sum n (fun j => P j * dP j)) * E / (1 - E).
Proof.
  intros n P p w eps pi dP nu nu' f Hf Hp H1 Hw HP Hnu HE E.
  set (W := Sum n w). set (eta := W - 1).
  assert (NU : 0 <= nu) by (eapply Rle_trans; [apply Rabs_pos | exact Hnu]).
  assert (EW : Rabs eta <= E).
  { unfold eta, W, E. rewrite <- H1, <- Sum_minus. eapply Rle_trans. apply Sum_abs. apply Sum_le. exact Hw. }
  assert (E0 : 0 <= E) by (eapply Rle_trans; [apply Rabs_pos | exact EW]).
  fold E in HE. assert (W0 : 1 - E <= W) by (apply Rabs_le_inv in EW; unfold eta in EW; lra).
  assert (Wp : 0 < W) by lra.
  assert (ID : Sum n (fun j => (P j - w j * (1 + nu') / W) * dP j) =
               / W * (Sum n (fun j => (P j - w j * (1 + nu')) * dP j) + eta * Sum n (fun j => P j * dP j))).
  { rewrite Rmult_plus_distr_l, <- (Sum_scale n eta), <- !Sum_scale, <- Sum_plus. apply Sum_ext. intros j J.
    unfold eta. field. lra. }
  rewrite ID, Rabs_mult, (Rabs_right (/ W)) by (left; apply Rinv_0_lt_compat; exact Wp).
  assert (IW : / W <= / (1 - E)) by (apply Rinv_le; lra).
  assert (IP : 0 < / W) by (apply Rinv_0_lt_compat; exact Wp).
  set (X := Sum n (fun j => (P j - w j * (1 + nu')) * dP j)). set (A := Sum n (fun j => P j * dP j)).
  assert (XB : Rabs X <= Sum n (fun j => (eps j + compound (inverse (pi j)) nu * (P j + f + eps j) + f) * Rabs (dP j))).
  { unfold X. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J.
    rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos |].
    destruct (Hp j J) as (P0 & Pi & W1 & EP).
    destruct (share_from_backward (p j) (P j) (pi j) f P0 Pi Hf (HP j J)) as (B1 & B2).
    assert (Q := Hw j J). apply Rabs_le_inv in Q. apply Rabs_le_inv in B2.
    assert (I0 : 0 <= inverse (pi j)).
    { unfold inverse. apply Rmult_le_pos; [lra |]. left. apply Rinv_0_lt_compat. lra. }
    assert (WN : Rabs (w j * nu') <= nu * ((P j + f) * (1 + inverse (pi j)) + eps j)).
    { rewrite Rabs_mult, (Rabs_right (w j)) by lra. rewrite Rmult_comm. apply Rmult_le_compat; try lra. apply Rabs_pos. }
    apply Rabs_le_inv in WN.
    assert (0 <= inverse (pi j) * eps j) by (apply Rmult_le_pos; lra).
    assert (0 <= inverse (pi j) * nu * eps j) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | lra]).
    replace (P j - w j * (1 + nu')) with ((P j - p j) + (p j - w j) - w j * nu') by ring.
    apply Rabs_le. unfold compound. split; lra. }
  assert (AB : Rabs (eta * A) <= Rabs A * E).
  { rewrite Rabs_mult, Rmult_comm. apply Rmult_le_compat_l; [apply Rabs_pos | exact EW]. }
  assert (T : Rabs (X + eta * A) <= Sum n (fun j => (eps j + compound (inverse (pi j)) nu * (P j + f + eps j) + f) * Rabs (dP j)) + Rabs A * E).
  { eapply Rle_trans. apply Rabs_triang. lra. }
  eapply Rle_trans. apply Rmult_le_compat; [lra | apply Rabs_pos | exact IW | exact T].
  rewrite Rmult_plus_distr_l, <- Sum_scale. apply Req_le. f_equal.
  - apply Sum_ext. intros j J. unfold Rdiv. ring.
  - unfold Rdiv. ring.
Qed.

(** A row's entropy is at most log2 n (Gibbs): sharp rows are no worse. *)
Theorem entropy :
  forall n (p : nat -> R), (0 < n)%nat -> (forall j, (j < n)%nat -> 0 < p j) -> Sum n p = 1 ->
  Sum n (fun j => p j * log2 (/ p j)) <= log2 (INR n).
Proof.
  intros n p Hn Hp H1. assert (L := ln2_positive).
  assert (N : 0 < INR n) by (apply lt_0_INR; exact Hn).
  assert (G : Sum n (fun j => p j * ln (/ p j)) <= ln (INR n)).
  { assert (Z : Sum n (fun j => p j * ln (/ p j)) - ln (INR n) = Sum n (fun j => p j * (ln (/ p j) - ln (INR n)))).
    { replace (ln (INR n)) with (ln (INR n) * Sum n p) at 1 by (rewrite H1; ring).
      rewrite <- Sum_scale, <- Sum_minus. apply Sum_ext. intros j J. ring. }
    assert (Q : Sum n (fun j => p j * (ln (/ p j) - ln (INR n))) <= Sum n (fun j => / INR n - p j)).
    { apply Sum_le. intros j J. assert (PJ := Hp j J).
      set (y := / (INR n * p j)).
      assert (Y : 0 < y) by (unfold y; apply Rinv_0_lt_compat; apply Rmult_lt_0_compat; lra).
      assert (E : ln (/ p j) - ln (INR n) = ln y).
      { unfold y. rewrite !ln_Rinv by (try apply Rmult_lt_0_compat; lra). rewrite ln_mult by lra. ring. }
      assert (B : ln y <= y - 1).
      { destruct (Req_dec y 1) as [-> | D]; [rewrite ln_1; lra |].
        left. rewrite <- (ln_exp (y - 1)). apply ln_increasing; [lra |].
        assert (T := exp_ineq1 (y - 1)). replace (1 + (y - 1)) with y in T by ring. apply T. lra. }
      rewrite E. replace (/ INR n - p j) with (p j * (y - 1)) by (unfold y; field; lra).
      apply Rmult_le_compat_l; lra. }
    rewrite Sum_minus, H1 in Q.
    assert (C : Sum n (fun _ => / INR n) = 1).
    { assert (K : forall m c, Sum m (fun _ => c) = INR m * c).
      { induction m as [| m IH]; intro c; [simpl; ring |]. rewrite S_INR. simpl Sum. rewrite IH. ring. }
      rewrite K. field. lra. }
    rewrite C in Q. lra. }
  rewrite (Sum_ext n _ (fun j => / ln 2 * (p j * ln (/ p j)))) by (intros; unfold log2, Rdiv; ring).
  rewrite Sum_scale. unfold log2, Rdiv. rewrite Rmult_comm. apply Rmult_le_compat_r; [| exact G].
  left. apply Rinv_0_lt_compat. exact L.
Qed.

(** The mean of exp(lambda) - 1, not exp of the mean less 1: Jensen's inequality points the other
    way, and the largest lambda pays for it. *)
Theorem mean_drift :
  forall n (p lam : nat -> R) top, top < 1 -> (forall j, (j < n)%nat -> 0 <= p j /\ 0 <= lam j <= top) ->
  Sum n (fun j => p j * (exp (lam j) - 1)) <= Sum n (fun j => p j * lam j) / (1 - top).
Proof.
  intros n p lam top Ht H. unfold Rdiv. rewrite Rmult_comm, <- Sum_scale. apply Sum_le. intros j J.
  destruct (H j J) as (P & L0 & L1). set (l := lam j) in *.
  assert (B : exp l - 1 <= l / (1 - top)).
  { assert (D : 1 - l <= exp (- l)).
    { destruct (Req_dec l 0) as [-> | N]; [rewrite Ropp_0, exp_0; lra |].
      assert (T := exp_ineq1 (- l)). left. replace (1 - l) with (1 + - l) by ring. apply T. lra. }
    rewrite exp_Ropp in D. assert (E := exp_pos l).
    assert (F : exp l <= / (1 - l)).
    { apply Rmult_le_reg_r with (1 - l); [lra |]. rewrite Rinv_l by lra.
      apply Rmult_le_reg_l with (/ exp l); [apply Rinv_0_lt_compat; lra |].
      replace (/ exp l * (exp l * (1 - l))) with (1 - l) by (field; lra). lra. }
    assert (G : / (1 - l) - 1 = l * / (1 - l)) by (field; lra).
    assert (I : / (1 - l) <= / (1 - top)) by (apply Rinv_le; lra).
    unfold Rdiv. assert (l * / (1 - l) <= l * / (1 - top)) by (apply Rmult_le_compat_l; lra). lra. }
  replace (/ (1 - top) * (p j * l)) with (p j * (l / (1 - top))) by (unfold Rdiv; ring).
  apply Rmult_le_compat_l; assumption.
Qed.

(** ... so that the weighted mean of lambda depends on n alone. *)
Theorem mean_lambda :
  forall n (p below : nat -> R) r E H, 0 <= r -> (forall j, (j < n)%nat -> 0 <= p j /\ 0 <= below j) ->
  Sum n p = 1 -> Sum n (fun j => p j * below j) <= H ->
  Sum n (fun j => p j * lambda (below j) r E) <= chord * u * (3 * H + 40 + 2 * r) + 3 * inverse E.
Proof.
  intros n p below r E H Hr Hp H1 HB. assert (U := u_positive).
  assert (C : 0 < chord * u) by (unfold chord; apply Rmult_lt_0_compat; lra).
  eapply Rle_trans.
  - apply Sum_le with (g := fun j => chord * u * 3 * (p j * below j) + (chord * u * (40 + 2 * r) + 3 * inverse E) * p j).
    intros j J. destruct (Hp j J) as (P & B). unfold lambda.
    replace (chord * u * 3 * (p j * below j) + (chord * u * (40 + 2 * r) + 3 * inverse E) * p j)
      with (p j * (chord * u * (3 * below j + 40 + 2 * r) + 3 * inverse E)) by ring.
    apply Rmult_le_compat_l; [exact P |]. apply Rplus_le_compat_r. apply Rmult_le_compat_l; [lra |].
    assert (Rmax (8 + r) (below j) <= 8 + r + below j) by (apply Rmax_lub; lra).
    assert (Rmax 32 (below j + r) <= 32 + (below j + r)) by (apply Rmax_lub; lra). lra.
  - rewrite Sum_plus, !Sum_scale, H1.
    assert (chord * u * 3 * Sum n (fun j => p j * below j) <= chord * u * 3 * H) by (apply Rmult_le_compat_l; lra).
    lra.
Qed.

(** norm. lam bounds what the two passes' exponentials differ by, s the sum l, q the quotient. *)
Definition between lam s q := compound (compound (exp lam - 1) (inverse s)) q.

Theorem norm_coded :
  forall n (p P theta lam rho : nat -> R) sigma s q f delta,
  (forall j, (j < n)%nat -> 0 <= p j) -> Sum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (theta j) <= lam j) ->
  (forall j, (j < n)%nat -> Rabs (rho j) <= q) ->
  0 <= s < 1 -> Rabs sigma <= s -> 0 <= f ->
  (forall j, (j < n)%nat -> Rabs (P j - p j * exp (theta j) * (1 + rho j) / (1 + sigma)) <= f) ->
  (forall j, (j < n)%nat -> between (lam j) s q < 1) ->
  Rabs (delta * (1 - Sum n P)) <=
    Rabs delta * (compound (compound (Sum n (fun j =>
      (P j + f) * (1 + inverse (between (lam j) s q)) * (exp (lam j) - 1))) (inverse s)) q + INR n * f).
Proof.
  intros n p P theta lam rho sigma s q f delta Hp H1 Ht Hr Hs Hsig Hf HP Hb.
  rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos |].
  eapply Rle_trans. apply (unit_sum n p P theta lam rho sigma s q f); assumption.
  apply Rplus_le_compat_r.
  assert (I0 : 0 <= inverse s).
  { unfold inverse. apply Rmult_le_pos; [lra |]. left. apply Rinv_0_lt_compat. lra. }
  assert (Q0 : 0 <= q \/ n = O).
  { destruct n as [| k]; [right; reflexivity | left]. eapply Rle_trans. apply Rabs_pos. apply (Hr O). lia. }
  destruct Q0 as [Q0 | Z]; [| subst n; simpl in H1; lra].
  assert (L0 : forall j, (j < n)%nat -> 0 <= exp (lam j) - 1).
  { intros j J. eapply Rle_trans. apply Rabs_pos. apply (exp_both (theta j)). apply Ht. exact J. }
  assert (S : Sum n (fun j => p j * (exp (lam j) - 1)) <=
              Sum n (fun j => (P j + f) * (1 + inverse (between (lam j) s q)) * (exp (lam j) - 1))).
  { apply Sum_le. intros j J. apply Rmult_le_compat_r; [apply L0; exact J |].
    assert (B0 : 0 <= between (lam j) s q).
    { unfold between, compound. assert (E := L0 j J). set (x := exp (lam j) - 1) in *.
      assert (0 <= x * inverse s) by (apply Rmult_le_pos; lra).
      assert (0 <= (x + inverse s + x * inverse s) * q) by (apply Rmult_le_pos; lra). lra. }
    apply share_from_backward; [apply Hp; exact J | split; [exact B0 | apply Hb; exact J] | exact Hf |].
    assert (E := exp_both _ _ (Ht j J)). assert (R := Hr j J). assert (I := inverse_of_sum sigma s Hs Hsig).
    set (x := exp (theta j) - 1) in *. set (y := / (1 + sigma) - 1) in *. set (l := exp (lam j) - 1) in *.
    assert (PJ := Hp j J).
    assert (K : Rabs ((1 + x) * (1 + y) * (1 + rho j) - 1) <= between (lam j) s q).
    { unfold between. fold l. assert (C : forall a b a' b', Rabs a <= a' -> Rabs b <= b' -> Rabs (compound a b) <= compound a' b').
      { intros a b a' b' Ha Hb'. unfold compound. eapply Rle_trans. apply Rabs_triang.
        assert (T := Rabs_triang a b). rewrite Rabs_mult.
        assert (Rabs a * Rabs b <= a' * b') by (apply Rmult_le_compat; try apply Rabs_pos; assumption). lra. }
      replace ((1 + x) * (1 + y) * (1 + rho j) - 1) with (compound (compound x y) (rho j)) by (unfold compound; ring).
      apply C; [apply C; assumption | exact R]. }
    replace (P j - p j) with ((P j - p j * exp (theta j) * (1 + rho j) / (1 + sigma)) + p j * ((1 + x) * (1 + y) * (1 + rho j) - 1))
      by (unfold x, y, Rdiv; ring).
    eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult, (Rabs_right (p j)) by lra.
    assert (p j * Rabs ((1 + x) * (1 + y) * (1 + rho j) - 1) <= p j * between (lam j) s q) by (apply Rmult_le_compat_l; assumption).
    assert (F := HP j J). lra. }
  unfold compound.
  assert (Sum n (fun j => p j * (exp (lam j) - 1)) * inverse s <= Sum n (fun j => (P j + f) * (1 + inverse (between (lam j) s q)) * (exp (lam j) - 1)) * inverse s)
    by (apply Rmult_le_compat_r; assumption).
  set (a := Sum n (fun j => p j * (exp (lam j) - 1))) in *.
  set (b := Sum n (fun j => (P j + f) * (1 + inverse (between (lam j) s q)) * (exp (lam j) - 1))) in *.
  assert ((a + inverse s + a * inverse s) * q <= (b + inverse s + b * inverse s) * q) by (apply Rmult_le_compat_r; lra).
  lra.
Qed.
