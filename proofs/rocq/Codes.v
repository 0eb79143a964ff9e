(** Codes of E4M3 and the zero-sum chain, seen apart from the solvers. Section 4.

    The solvers were given one disjunct a binade; here the code is Flocq's rounding to four bits. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core Relative.
From dmverify Require Import Binary32 Sums Casts Stores Rounding.
Import ListNotations.
Open Scope R_scope.

Lemma rn8_le : forall x y, x <= y -> rn8 x <= rn8 y.
Proof. intros x y H. unfold rn8. apply round_le; [apply fexp8_valid | apply valid_rnd_N | exact H]. Qed.

Lemma code_le : forall x y, x <= y -> code x <= code y.
Proof.
  intros x y H. assert (R := rn8_le x y H). unfold code, sat, Rmin, Rmax. repeat destruct Rle_dec; lra.
Qed.

(** e4m3-monotone and cast-set: between the codes of the ends lies every code of what is between. *)
Theorem code_between : forall lo x hi, lo <= x <= hi -> code lo <= code x <= code hi.
Proof. intros lo x hi (L & H). split; apply code_le; assumption. Qed.

(** Without saturation too. *)
Theorem rounding_between : forall lo x hi, lo <= x <= hi -> rn8 lo <= rn8 x <= rn8 hi.
Proof. intros lo x hi (L & H). split; apply rn8_le; assumption. Qed.

(** e4m3-odd. *)
Theorem odd_code : forall x, code (- x) = - code x /\ rn8 (- x) = - rn8 x.
Proof. intro x. split; [apply code_opp | apply rn8_opp]. Qed.

(** e4m3-saturation: 464 is halfway from 448 to 480, and 448, of even significand, is chosen. *)
Lemma rn8_464 : rn8 464 = 448.
Proof.
  unfold rn8, round, scaled_mantissa, cexp.
  assert (G : (mag radix2 464 = 9 :> Z)%Z) by (apply mag_unique_pos; simpl; lra).
  rewrite G. unfold fexp8, FLT_exp. change (Z.max (9 - 4) (-9)) with 5%Z.
  replace (464 * bpow radix2 (- (5))) with (14 + / 2) by (simpl; lra).
  assert (Z : ZnearestE (14 + / 2) = 14%Z).
  { unfold Znearest. assert (F : Zfloor (14 + / 2) = 14%Z) by (apply Zfloor_imp; simpl; lra).
    rewrite F. rewrite Rcompare_Eq by (simpl; lra). reflexivity. }
  rewrite Z. unfold F2R. simpl. lra.
Qed.

Theorem saturation_changes_nothing : forall x, Rabs x <= 464 -> code x = rn8 x.
Proof.
  intros x H. apply Rabs_le_inv in H.
  assert (P := rn8_le x 464 ltac:(lra)). assert (N := rn8_le (- x) 464 ltac:(lra)).
  rewrite rn8_opp in N. rewrite rn8_464 in P, N. unfold code, sat.
  rewrite Rmin_right by lra. apply Rmax_right. lra.
Qed.

(** e4m3-equivariance: a power of two passes through where neither side is subnormal. *)
Theorem code_power_of_two :
  forall x e, / 64 <= Rabs x -> / 64 <= Rabs (x * bpow radix2 e) ->
  rn8 (x * bpow radix2 e) = rn8 x * bpow radix2 e.
Proof.
  intros x e H1 H2. unfold rn8, fexp8.
  assert (L : bpow radix2 (-9 + 4 - 1) = / 64) by (simpl; lra).
  rewrite !(round_FLT_FLX radix2 (-9) 4) by (rewrite L; assumption).
  unfold round, scaled_mantissa, cexp, F2R, FLX_exp. simpl.
  assert (N : x <> 0) by (intro Z; rewrite Z, Rabs_R0 in H1; lra).
  rewrite mag_mult_bpow by exact N.
  replace (- (mag radix2 x + e - 4))%Z with (- (mag radix2 x - 4) + - e)%Z by ring. rewrite bpow_plus.
  replace (x * bpow radix2 e * (bpow radix2 (- (mag radix2 x - 4)) * bpow radix2 (- e)))
    with (x * bpow radix2 (- (mag radix2 x - 4)) * (bpow radix2 e * bpow radix2 (- e))) by ring.
  rewrite <- bpow_plus. replace (e + - e)%Z with 0%Z by ring. simpl (bpow radix2 0). rewrite Rmult_1_r.
  replace (mag radix2 x + e - 4)%Z with ((mag radix2 x - 4) + e)%Z by ring. rewrite bpow_plus. ring.
Qed.

(** carry-shrinks: 0 is a code, so nothing is further from its code than from 0. *)
Theorem carry_at_most_itself : forall t, Rabs (t - code t) <= Rabs t.
Proof.
  assert (P : forall t, 0 <= t -> Rabs (t - code t) <= Rabs t).
  { intros t H. destruct (Rle_or_lt t 448) as [S | L].
    - rewrite code_within by (rewrite Rabs_right; lra). rewrite Rabs_minus_sym. apply rn8_error_itself.
    - rewrite code_beyond by lra. rewrite !Rabs_right; lra. }
  intro t. destruct (Rle_or_lt 0 t) as [S | L]; [apply P; exact S |].
  replace (t - code t) with (- (- t - code (- t))) by (rewrite code_opp; ring).
  rewrite Rabs_Ropp, <- (Rabs_Ropp t). apply P. lra.
Qed.

(** cast-shrinks: of a quotient that was rounded to binary32 first, underflow and saturation too. *)
Lemma code_0 : code 0 = 0.
Proof. assert (A := carry_at_most_itself 0). rewrite Rabs_R0 in A. apply Rabs_le_inv in A. lra. Qed.

Lemma code_upto_twice : forall z, 0 <= z -> 0 <= code z <= 2 * z.
Proof.
  intros z H. assert (C := carry_at_most_itself z). rewrite (Rabs_right z) in C by lra. apply Rabs_le_inv in C.
  assert (P := code_le 0 z H). rewrite code_0 in P. lra.
Qed.

Lemma rn8_half_smallest : rn8 (/ 1024) = 0.
Proof.
  unfold rn8, round, scaled_mantissa, cexp.
  assert (G : (mag radix2 (/ 1024) = -9 :> Z)%Z) by (apply mag_unique_pos; simpl; lra).
  rewrite G. unfold fexp8, FLT_exp. change (Z.max (-9 - 4) (-9)) with (-9)%Z.
  replace (/ 1024 * bpow radix2 (- -9)) with (/ 2) by (simpl; lra).
  assert (Z : ZnearestE (/ 2) = 0%Z).
  { unfold Znearest. assert (F : Zfloor (/ 2) = 0%Z) by (apply Zfloor_imp; simpl; lra).
    rewrite F. rewrite Rcompare_Eq by (simpl; lra). reflexivity. }
  rewrite Z. unfold F2R. simpl. ring.
Qed.

(** A number other than 0 is not half of its code: halfway to the smallest code is even, 0. *)
Lemma code_not_twice : forall z, 0 < z -> code z < 2 * z.
Proof.
  intros z H. destruct (code_upto_twice z (Rlt_le _ _ H)) as (P & Q).
  destruct (Rle_lt_or_eq_dec _ _ Q) as [L | E]; [exact L | exfalso].
  destruct (Rle_or_lt z 448) as [S | B]; [| rewrite code_beyond in E; lra].
  rewrite code_within in E by (rewrite Rabs_right; lra).
  assert (C := rn8_error z). rewrite E in C. unfold cast_bound in C.
  replace (2 * z - z) with z in C by ring. rewrite (Rabs_right z) in C by lra.
  destruct (Rle_dec (/ 64) z); [lra |].
  assert (T := Rle_trans _ _ _ C (Rmin_r z tiny)). unfold tiny in T.
  assert (G : / 512 <= 2 * z).
  { rewrite <- E. replace (/ 512) with (bpow radix2 (-9)) by (simpl; lra).
    apply (generic_format_ge_bpow radix2 fexp8 (-9)).
    - intro e. unfold fexp8, FLT_exp. lia.
    - rewrite E. lra.
    - apply generic_format_round; [apply fexp8_valid | apply valid_rnd_N]. }
  assert (Z : z = / 1024) by lra. rewrite Z, rn8_half_smallest in E. lra.
Qed.

Theorem cast_at_most_itself : forall y, Rabs (code (rnd y) - y) <= Rabs y.
Proof.
  assert (N : forall y, 0 <= y -> Rabs (code (rnd y) - y) <= Rabs y).
  { intros y H. assert (R : 0 <= rnd y) by (rewrite <- rnd_0; apply rnd_le; exact H).
    destruct (code_upto_twice _ R) as (P & Q). rewrite (Rabs_right y) by lra.
    destruct (Rle_or_lt (code (rnd y)) (2 * y)) as [L | L]; [apply Rabs_le; lra | exfalso].
    assert (C : code (rnd y) <= 448).
    { unfold code, sat. assert (T := Rmin_l 448 (rn8 (rnd y))). unfold Rmax. destruct Rle_dec; lra. }
    (* half a code is a binary32 number above y *)
    assert (F : binary32 (code (rnd y) / 2)).
    { destruct (Req_dec (code (rnd y)) 0) as [Z | Z]; [lra |].
      rewrite <- (halving (code (rnd y))); [apply rnd_format | apply code_format |].
      rewrite (Rabs_right (code (rnd y))) by lra. destruct (Rle_or_lt (/ 512) (code (rnd y))) as [G | G].
      - eapply Rle_trans; [| exact G]. replace (/ 512) with (bpow radix2 (-9)) by (simpl; lra). apply bpow_le. lia.
      - exfalso. assert (W : code (rnd y) = rn8 (rnd y)).
        { unfold code, sat in *. unfold Rmin, Rmax in *. repeat destruct Rle_dec; lra. }
        assert (K : bpow radix2 (-9) <= rn8 (rnd y)).
        { apply (generic_format_ge_bpow radix2 fexp8 (-9)).
          - intro e. unfold fexp8, FLT_exp. lia.
          - rewrite <- W. lra.
          - apply generic_format_round; [apply fexp8_valid | apply valid_rnd_N]. }
        simpl in K. lra. }
    assert (B : rnd y <= code (rnd y) / 2) by (apply rnd_below; [exact F | lra]).
    destruct (Rle_lt_or_eq_dec _ _ R) as [S | S]; [assert (T := code_not_twice _ S); lra |].
    rewrite <- S, code_0 in L. lra. }
  intro y. destruct (Rle_or_lt 0 y) as [H | H]; [apply N; exact H |].
  assert (O : rnd y = - rnd (- y)) by (unfold rnd; rewrite round_NE_opp; ring).
  rewrite O, code_opp. replace (- code (rnd (- y)) - y) with (- (code (rnd (- y)) - - y)) by ring.
  rewrite Rabs_Ropp, <- (Rabs_Ropp y). apply N. lra.
Qed.

(** carry-exact, however large t is: beyond 896 both are whole numbers of 64. *)
Theorem carry_exact_far : forall t, binary32 t -> Rabs t <= bpow radix2 30 -> binary32 (t - code t).
Proof.
  assert (P : forall t, binary32 t -> 0 <= t <= bpow radix2 30 -> binary32 (t - code t)).
  { intros t F H. destruct (Rle_or_lt t 896) as [S | L].
    - apply carry_exact; [exact F | rewrite Rabs_right; lra].
    - rewrite code_beyond by lra. destruct (Rle_lt_or_eq_dec _ _ (proj2 H)) as [B | E].
      + set (k := cexp radix2 fexp t). assert (K : (k <= 6)%Z).
        { unfold k, cexp, fexp, FLT_exp, prec, emin. assert (M := mag_le_bpow radix2 t 30).
          rewrite (Rabs_right t) in M by lra. specialize (M ltac:(lra) B). lia. }
        assert (K0 : (-149 <= k)%Z) by (unfold k, cexp, fexp, FLT_exp, emin; lia).
        assert (TM : t = F2R (Float radix2 (Ztrunc (scaled_mantissa radix2 fexp t)) k)) by exact F.
        set (m := Ztrunc (scaled_mantissa radix2 fexp t)) in *.
        assert (E : 448 = F2R (Float radix2 (7 * 2 ^ (6 - k)) k)).
        { unfold F2R, Fnum, Fexp. rewrite mult_IZR. change (2 ^ (6 - k))%Z with (radix2 ^ (6 - k))%Z. rewrite IZR_Zpower by lia.
          rewrite Rmult_assoc, <- bpow_plus. replace (6 - k + k)%Z with 6%Z by ring. simpl. lra. }
        assert (D : t - 448 = F2R (Float radix2 (m - 7 * 2 ^ (6 - k)) k)).
        { transitivity (F2R (Float radix2 m k) - F2R (Float radix2 (7 * 2 ^ (6 - k)) k)); [f_equal; assumption |].
          unfold F2R, Fnum, Fexp. rewrite minus_IZR. ring. }
        rewrite D. apply generic_format_F2R. intro Z. rewrite <- D.
        assert (M := mag_le radix2 (t - 448) t ltac:(lra) ltac:(lra)). unfold k, cexp, fexp, FLT_exp. lia.
      + rewrite E. apply generic_format_FLT. exists (Float radix2 16777209 6).
        * unfold F2R. simpl. lra.
        * unfold prec. simpl. lia.
        * unfold emin. simpl. lia. }
  intros t F H. destruct (Rle_or_lt 0 t) as [S | L].
  - apply P; [exact F |]. rewrite Rabs_right in H; lra.
  - replace (t - code t) with (- (- t - code (- t))) by (rewrite code_opp; ring).
    apply generic_format_opp. apply P; [apply generic_format_opp; exact F |]. rewrite Rabs_left in H; lra.
Qed.

(** cast-perturbation: where |x| <= 448 and the carry that came in is at most 16. *)
Theorem chain_perturbation :
  forall x c, Rabs x <= 448 -> Rabs c <= 16 -> Rabs (code (rnd (x + c)) - x) <= 32 + / 65536.
Proof.
  intros x c X C. assert (K := carry_16 x c X C). unfold carried in K.
  assert (R : Rabs (rnd (x + c) - (x + c)) <= / 65536).
  { replace (/ 65536) with (bpow radix2 (9 - 25)) by (simpl; lra). apply half_place.
    - unfold emin, prec. lia.
    - eapply Rle_lt_trans. apply Rabs_triang. simpl. lra. }
  apply Rabs_le_inv in K. apply Rabs_le_inv in R. apply Rabs_le_inv in C. apply Rabs_le. lra.
Qed.

(** carry-unclamped: with quotients of up to 448 + 2^-15 a carry grows by at most one last place, 2^-15,
    a step. The sum is at most a binary32 number, and so is what it rounds to. *)
Theorem carry_grows :
  forall k x c, (0 <= k < 1048576)%Z -> Rabs x <= 448 + / 32768 -> Rabs c <= 16 + IZR k / 32768 ->
  Rabs (carried c x) <= 16 + IZR (k + 1) / 32768.
Proof.
  intros k x c K X C. set (top := 464 + IZR (k + 1) / 32768).
  assert (K' : 0 <= IZR k) by (apply IZR_le; lia). assert (E1 : IZR (k + 1) = IZR k + 1) by apply plus_IZR.
  assert (F : binary32 top).
  { replace top with (F2R (Float radix2 (15204352 + (k + 1)) (- 15))).
    - apply generic_format_FLT. exists (Float radix2 (15204352 + (k + 1)) (- 15)); cbn [Fnum Fexp].
      + reflexivity.
      + change (radix2 ^ prec)%Z with 16777216%Z. lia.
      + unfold emin. lia.
    - unfold F2R, top. cbn [Fnum Fexp]. rewrite plus_IZR. simpl (bpow radix2 (- 15)). lra. }
  assert (T : Rabs (rnd (x + c)) <= top).
  { apply rnd_within; [exact F |]. eapply Rle_trans. apply Rabs_triang. unfold top. lra. }
  unfold carried. rewrite Rabs_minus_sym. set (t := rnd (x + c)) in *.
  destruct (Rle_or_lt (Rabs t) 464) as [S | L]; [assert (E := code_error_16 t S); lra |].
  unfold top in T. destruct (Rle_or_lt 0 t) as [Q | Q].
  - rewrite (Rabs_right t) in T, L by lra. rewrite code_beyond by lra. rewrite Rabs_left; lra.
  - rewrite (Rabs_left t) in T, L by lra. replace (code t) with (- code (- t)) by (rewrite code_opp; ring).
    rewrite code_beyond by lra. rewrite Rabs_right; lra.
Qed.

(** cast-row-sum as the solvers have it: x is the binary32 quotient of the exact X. *)
Fixpoint slip_sizes (c : R) (l : list R) : R :=
  match l with [] => 0 | x :: l => Rabs (rnd (x + c) - (x + c)) + slip_sizes (carried c x) l end.

Theorem cast_of_quotients :
  forall l, (forall x X, In (x, X) l -> Rabs (x - X) <= u * Rabs X) ->
  let xs := map (fun k : R * R => fst k) l in let exact := map (fun k : R * R => snd k) l in
  Rabs (codes 0 xs - row_total (fun X => X) exact) <=
    Rabs (last_carry 0 xs) + slip_sizes 0 xs + u * row_total Rabs exact.
Proof.
  intros l H xs exact. rewrite zero_sum_identity.
  assert (S : forall l c, Rabs (slips c l) <= slip_sizes c l).
  { clear. induction l as [| x l IH]; intro c; simpl; [rewrite Rabs_R0; lra |].
    eapply Rle_trans. apply Rabs_triang. assert (T := IH (carried c x)). lra. }
  assert (D : Rabs (row_total (fun x => x) xs - row_total (fun X => X) exact) <= u * row_total Rabs exact).
  { unfold xs, exact. clear xs exact S. induction l as [| [x X] l IH]; simpl.
    - replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
    - assert (E := H x X (or_introl eq_refl)). assert (T := IH (fun y Y I => H y Y (or_intror I))).
      match goal with |- Rabs ?y <= _ => replace y with ((x - X) + (row_total (fun x => x) (map (fun k : R * R => fst k) l) - row_total (fun X => X) (map (fun k : R * R => snd k) l))) by ring end.
      eapply Rle_trans. apply Rabs_triang. lra. }
  assert (T := S xs 0).
  replace (row_total (fun x => x) xs + 0 - last_carry 0 xs + slips 0 xs - row_total (fun X => X) exact)
    with (- last_carry 0 xs + slips 0 xs + (row_total (fun x => x) xs - row_total (fun X => X) exact)) by ring.
  eapply Rle_trans. apply Rabs_triang. assert (G := Rabs_triang (- last_carry 0 xs) (slips 0 xs)). rewrite Rabs_Ropp in G. lra.
Qed.
