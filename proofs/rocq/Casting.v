(** One cast from the number itself: its quotient by the scale, rounded with underflow, and the code.

    Section 4. A quotient that is too small to be rounded relatively has the code 0, and the cast is
    off by the number itself. Premise: the scale s is positive; no quotient passes 464. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core Relative.
From dmverify Require Import Binary32 Sums Stores Casts Known Rounding Codes.
Import ListNotations.
Open Scope R_scope.

Lemma tiny_power : tiny = bpow radix2 (- 10).
Proof. unfold tiny. simpl. lra. Qed.

Lemma tiny_positive : 0 < tiny.
Proof. unfold tiny. lra. Qed.

Lemma u_small : 0 < u <= / 16777216.
Proof. split; [apply u_positive |]. unfold u, prec. simpl. lra. Qed.

Lemma rnd_opp : forall x, rnd (- x) = - rnd x.
Proof. intro x. unfold rnd. apply round_NE_opp. Qed.

(** Below half the smallest code, and on it, there is no code but 0. *)
Lemma code_of_tiny : forall z, 0 <= z <= tiny -> code z = 0.
Proof.
  intros z H. rewrite code_within by (unfold tiny in H; rewrite Rabs_right; lra).
  destruct (Req_dec z 0) as [-> | N]; [unfold rn8; apply round_0; apply valid_rnd_N |].
  destruct (Req_dec z tiny) as [-> | T].
  - exact rn8_half_smallest.
  - unfold rn8. apply round_N_small_pos with (ex := mag radix2 z).
    + destruct (mag radix2 z) as (e & He). simpl. specialize (He N). rewrite Rabs_right in He by lra. exact He.
    + assert (L : (mag radix2 z <= - 10)%Z).
      { apply mag_le_bpow; [exact N |]. rewrite Rabs_right by lra. rewrite <- tiny_power. lra. }
      unfold fexp8, FLT_exp. lia.
Qed.

Lemma tiny_format : binary32 tiny.
Proof. rewrite tiny_power. apply format_power. unfold emin. lia. Qed.

Lemma code_not_negative : forall z, 0 <= z -> 0 <= code z.
Proof. intros z H. apply code_upto_twice. exact H. Qed.

(** Either the quotient is rounded relatively, or it has the code 0. *)
Lemma quotient_cases :
  forall y, 0 <= y -> let z := rnd y in
  (tiny < z /\ tiny < y /\ Rabs (z - y) <= u * y) \/ (code z = 0 /\ y <= tiny * (1 + 2 * u)).
Proof.
  intros y H z. assert (U := u_small). assert (T := tiny_positive). assert (E0 := eta_positive).
  assert (Z0 : 0 <= z) by (unfold z; rewrite <- rnd_0; apply rnd_le; exact H).
  assert (N : bpow radix2 (emin + prec - 1) <= tiny / 2).
  { rewrite tiny_power. change (bpow radix2 (emin + prec - 1)) with (bpow radix2 (- 126)).
    replace (bpow radix2 (- 10) / 2) with (bpow radix2 (- 11)) by (simpl; lra). apply bpow_le. lia. }
  destruct (Rle_or_lt z tiny) as [S | L].
  - right. split; [apply code_of_tiny; lra |].
    destruct (Rle_or_lt y tiny) as [Sy | Ly]; [assert (0 <= tiny * (2 * u)) by (apply Rmult_le_pos; lra); lra |].
    destruct (rounding_error y) as (E & _); [rewrite Rabs_right; lra |]. fold z in E.
    apply Rabs_le_inv in E. rewrite (Rabs_right y) in E by lra.
    assert (y * (1 - u) <= tiny) by lra.
    apply Rmult_le_reg_r with (1 - u); [lra |].
    assert (0 <= tiny * (u - 2 * (u * u))) by (apply Rmult_le_pos; [lra | nra]). lra.
  - left. assert (Ly : tiny < y).
    { destruct (Rle_or_lt y tiny) as [Sy | Ly]; [| exact Ly]. exfalso.
      assert (K := rnd_below y tiny tiny_format Sy). fold z in K. lra. }
    split; [exact L | split; [exact Ly |]].
    destruct (rounding_error y) as (E & _); [rewrite Rabs_right; lra |].
    fold z in E. rewrite (Rabs_right y) in E by lra. exact E.
Qed.

(** e4m3-double-rounding: a code made of a quotient that was rounded is off by a 17th and u, not by a
    17th of more: midpoints between codes are numbers of binary32. z is m units of 2^(e-23). *)
Lemma double_rounding :
  forall y, 0 <= y -> / 64 <= rnd y <= 464 -> Rabs (code (rnd y) - y) <= y / 17 + u * y.
Proof.
  intros y Hy Hz. set (z := rnd y) in *.
  set (e := (mag radix2 z - 1)%Z). set (w := bpow radix2 (e - 23)). set (m := (Zfloor (z / w))%Z).
  assert (W : 0 < w) by apply bpow_gt_0.
  assert (B : bpow radix2 e <= z < bpow radix2 (e + 1)).
  { assert (Nz : z <> 0) by lra. assert (B1 := bpow_mag_le radix2 z Nz). assert (B2 := bpow_mag_gt radix2 z).
    rewrite Rabs_right in B1, B2 by lra. unfold e. rewrite Z.sub_add. split; assumption. }
  assert (P23 : bpow radix2 e = 8388608 * w).
  { unfold w. replace 8388608 with (bpow radix2 23) by reflexivity. rewrite <- bpow_plus. f_equal. ring. }
  assert (E6 : (- 6 <= e)%Z).
  { unfold e.
    assert ((-5 <= mag radix2 z)%Z) by (replace (-5)%Z with (-6 + 1)%Z by ring; apply mag_ge_bpow; rewrite Rabs_right by lra; simpl; lra). lia. }
  assert (I : z = IZR m * w).
  { assert (F : binary32 z) by apply rnd_format.
    unfold binary32, generic_format, F2R, scaled_mantissa, cexp in F. simpl in F.
    replace (fexp (mag radix2 z)) with (e - 23)%Z in F by (unfold fexp, FLT_exp, prec, emin, e; lia).
    fold w in F. set (q := Ztrunc (z * bpow radix2 (- (e - 23)))) in *.
    assert (Q : z / w = IZR q) by (rewrite F at 1; field; lra).
    unfold m. rewrite Q, Zfloor_IZR. exact F. }
  assert (M23 : (8388608 <= m)%Z).
  { apply le_IZR. apply Rmult_le_reg_r with w; [exact W |]. rewrite <- I. lra. }
  assert (D : Rabs (z - y) <= w / 2).
  { assert (H := error_le_half_ulp_round radix2 fexp (fun x => negb (Z.even x)) y).
    assert (H' : Rabs (z - y) <= / 2 * ulp radix2 fexp z) by apply H. clear H.
    rewrite ulp_neq_0 in H' by lra. unfold cexp in H'.
    replace (fexp (mag radix2 z)) with (e - 23)%Z in H' by (unfold fexp, FLT_exp, prec, emin, e; lia).
    fold w in H'. lra. }
  apply Rabs_le_inv in D.
  assert (YL : (IZR m - / 2) * w <= y) by lra.
  assert (U : u = / 16777216) by (unfold u, prec; simpl; lra).
  assert (T : (IZR m - / 2) * w * (/ 17 + u) <= y / 17 + u * y).
  { replace (y / 17 + u * y) with (y * (/ 17 + u)) by (unfold Rdiv; ring). apply Rmult_le_compat_r; lra. }
  assert (C : Rabs (code z - y) <= Rabs (code z - z) + w / 2).
  { replace (code z - y) with ((code z - z) + (z - y)) by ring. eapply Rle_trans. apply Rabs_triang.
    apply Rplus_le_compat_l. apply Rabs_le. lra. }
  eapply Rle_trans. exact C. eapply Rle_trans; [| exact T].
  destruct (Z_le_gt_dec 8912896 m) as [G | S].
  - (* at least 17 / 16 of the binade's start *)
    assert (X : Rabs (code z - z) <= 524288 * w).
    { assert (HU := code_half_unit z ltac:(rewrite Rabs_right; lra)).
      destruct (Rle_or_lt z 448) as [L | L].
      - rewrite code_within in * by (rewrite Rabs_right; lra).
        unfold rn8. eapply Rle_trans. apply error_le_half_ulp. apply fexp8_valid.
        rewrite ulp_neq_0 by lra. unfold cexp.
        replace (fexp8 (mag radix2 z)) with (e - 3)%Z by (unfold fexp8, FLT_exp, e; lia).
        replace (e - 3)%Z with (20 + (e - 23))%Z by ring. rewrite bpow_plus. fold w. simpl (bpow radix2 20). lra.
      - rewrite code_beyond by lra. assert (E8 : e = 8%Z).
        { unfold e. assert (K : (mag radix2 z = 9 :> Z)%Z) by (apply mag_unique_pos; simpl; lra). rewrite K. reflexivity. }
        unfold w. rewrite E8. simpl. apply Rabs_le. lra. }
    apply IZR_le in G. eapply Rle_trans. apply Rplus_le_compat_r. exact X.
    replace (524288 * w + w / 2) with (w * (524288 + / 2)) by (unfold Rdiv; ring).
    replace ((IZR m - / 2) * w * (/ 17 + u)) with (w * ((IZR m - / 2) * (/ 17 + u))) by ring.
    apply Rmult_le_compat_l; [lra |]. rewrite U. lra.
  - assert (G : (m <= 8912895)%Z) by lia. apply IZR_le in G. apply IZR_le in M23.
    assert (ZS : z <= 448).
    { destruct (Rle_or_lt z 448) as [L | L]; [exact L | exfalso].
      assert (E8 : e = 8%Z).
      { unfold e. assert (K : (mag radix2 z = 9 :> Z)%Z) by (apply mag_unique_pos; simpl; lra). rewrite K. reflexivity. }
      assert (WE : w = / 32768) by (unfold w; rewrite E8; simpl; lra). rewrite I, WE in L. lra. }
    assert (X : Rabs (code z - z) <= z - 8388608 * w).
    { rewrite code_within by (rewrite Rabs_right; lra). unfold rn8.
      destruct (round_N_pt radix2 fexp8 (fun x => negb (Z.even x)) z) as [_ K].
      assert (F : generic_format radix2 fexp8 (bpow radix2 e)) by (apply generic_format_bpow; unfold fexp8, FLT_exp; lia).
      specialize (K _ F). rewrite <- P23. replace (z - bpow radix2 e) with (Rabs (bpow radix2 e - z)).
      - exact K.
      - rewrite Rabs_minus_sym. apply Rabs_right. lra. }
    eapply Rle_trans. apply Rplus_le_compat_r. exact X. rewrite I.
    replace (IZR m * w - 8388608 * w + w / 2) with (w * (IZR m - 8388608 + / 2)) by (unfold Rdiv; ring).
    replace ((IZR m - / 2) * w * (/ 17 + u)) with (w * ((IZR m - / 2) * (/ 17 + u))) by ring.
    apply Rmult_le_compat_l; [lra |]. rewrite U. lra.
Qed.

Lemma half_unit_tiny : forall q, tiny <= half_unit q.
Proof. intro q. unfold half_unit. apply Rmax_r. Qed.

(** The quotient y, in units of the scale: three bounds of one cast. *)
Lemma cast_of_quotient :
  forall y, 0 <= y -> rnd y <= 464 -> let q := code (rnd y) in
  Rabs (q - y) <= Rmin (Rmin (Rmax (y / 17) tiny) (half_unit q) + u * y) y.
Proof.
  intros y Hy Hz q. assert (U := u_small). assert (T := tiny_positive).
  assert (HT := half_unit_tiny q). assert (UY : 0 <= u * y) by (apply Rmult_le_pos; lra).
  destruct (quotient_cases y Hy) as [(Z & Y & E) | (Z & Y)].
  - set (z := rnd y) in *. assert (Z0 : Rabs z <= 464) by (rewrite Rabs_right; lra).
    assert (C0 : 0 <= q) by (apply code_not_negative; lra).
    apply Rmin_glb.
    + assert (A : Rabs (q - y) <= Rmax (y / 17) tiny + u * y).
      { destruct (Rle_or_lt (/ 64) z) as [N | S].
        - assert (D := double_rounding y Hy (conj N Hz)). fold z in D. fold q in D.
          eapply Rle_trans. exact D. apply Rplus_le_compat_r. apply Rmax_l.
        - assert (C := code_error z Z0). unfold cast_bound in C. fold q in C.
          rewrite (Rabs_right z) in C by lra. destruct (Rle_dec (/ 64) z); [lra |].
          assert (R := Rmin_r z tiny). assert (M := Rmax_r (y / 17) tiny).
          replace (q - y) with ((q - z) + (z - y)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
      assert (B : Rabs (q - y) <= half_unit q + u * y).
      { assert (C := code_half_unit z Z0). fold q in C.
        replace (q - y) with ((q - z) + (z - y)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
      unfold Rmin. destruct Rle_dec; assumption.
    + assert (A := cast_at_most_itself y). rewrite (Rabs_right y) in A by lra. exact A.
  - fold q in Z. rewrite Z. replace (0 - y) with (- y) by ring. rewrite Rabs_Ropp, (Rabs_right y) by lra.
    assert (YT : y <= tiny + u * y).
    { destruct (Rle_or_lt y tiny) as [S | L]; [lra |].
      (* rounded down to the midpoint or below it *)
      destruct (rounding_error y) as (E & _).
      - rewrite Rabs_right by lra. apply Rle_trans with tiny; [| lra]. rewrite tiny_power. apply bpow_le. unfold emin, prec. lia.
      - rewrite (Rabs_right y) in E by lra. apply Rabs_le_inv in E.
        destruct (Rle_or_lt (rnd y) tiny) as [K | K]; [lra | exfalso].
        assert (P : rnd y <= 2 * tiny).
        { assert (u * y <= u * (tiny * (1 + 2 * u))) by (apply Rmult_le_compat_l; lra).
          assert (tiny * (u * (1 + 2 * u)) <= tiny * / 4) by (apply Rmult_le_compat_l; [lra | nra]).
          assert (tiny * (2 * u) <= tiny * / 4) by (apply Rmult_le_compat_l; lra). lra. }
        assert (Z0 : Rabs (rnd y) <= 464) by (unfold tiny in *; rewrite Rabs_right; lra).
        assert (C := code_error (rnd y) Z0). fold q in C. rewrite Z in C.
        replace (0 - rnd y) with (- rnd y) in C by ring. rewrite Rabs_Ropp in C. unfold cast_bound in C.
        rewrite (Rabs_right (rnd y)) in C by lra. destruct (Rle_dec (/ 64) (rnd y)); [lra |].
        assert (R := Rmin_r (rnd y) tiny). lra. }
    assert (M := Rmax_r (y / 17) tiny). assert (H0 := half_unit_tiny 0).
    apply Rmin_glb; [| lra]. unfold Rmin. destruct Rle_dec; lra.
Qed.

(** A number x under a scale s, which need not be a power of two. *)
Theorem cast_of_number :
  forall x s, 0 < s -> Rabs (rnd (x / s)) <= 464 -> let q := code (rnd (x / s)) in
  Rabs (s * q - x) <=
    Rmin (Rmin (Rmax (Rabs x / 17) (s * tiny)) (s * half_unit q) + u * Rabs x) (Rabs x).
Proof.
  assert (P : forall x s, 0 < s -> 0 <= x -> rnd (x / s) <= 464 -> let q := code (rnd (x / s)) in
    Rabs (s * q - x) <= Rmin (Rmin (Rmax (x / 17) (s * tiny)) (s * half_unit q) + u * x) x).
  { intros x s Hs Hx Hz q. assert (Y : 0 <= x / s).
    { unfold Rdiv. apply Rmult_le_pos; [exact Hx |]. left. apply Rinv_0_lt_compat. exact Hs. }
    assert (C := cast_of_quotient (x / s) Y Hz). fold q in C.
    replace (s * q - x) with (s * (q - x / s)) by (field; lra). rewrite Rabs_mult, (Rabs_right s) by lra.
    assert (K := Rmult_le_compat_l s _ _ (Rlt_le _ _ Hs) C).
    rewrite Rmult_min_distr_l, Rmult_plus_distr_l, Rmult_min_distr_l in K by lra.
    rewrite <- RmaxRmult in K by lra.
    replace (s * (x / s / 17)) with (x / 17) in K by (field; lra).
    replace (s * (u * (x / s))) with (u * x) in K by (field; lra).
    replace (s * (x / s)) with x in K by (field; lra). exact K. }
  intros x s Hs Hz q. destruct (Rle_or_lt 0 x) as [S | L].
  - rewrite (Rabs_right x) by lra. apply P; [exact Hs | exact S |]. apply Rabs_le_inv in Hz. lra.
  - rewrite (Rabs_left x) by exact L.
    assert (O : rnd (x / s) = - rnd (- x / s)).
    { replace (x / s) with (- (- x / s)) by (field; lra). apply rnd_opp. }
    assert (Hz' : rnd (- x / s) <= 464) by (rewrite O, Rabs_Ropp in Hz; apply Rabs_le_inv in Hz; lra).
    assert (K := P (- x) s Hs ltac:(lra) Hz'). cbv zeta in K.
    assert (Q : q = - code (rnd (- x / s))) by (unfold q; rewrite O; apply code_opp).
    rewrite Q, half_unit_opp.
    replace (s * - code (rnd (- x / s)) - x) with (- (s * code (rnd (- x / s)) - - x)) by ring.
    rewrite Rabs_Ropp. exact K.
Qed.

(** What an operand's cast may be given: a quotient rounded up to three times, or one so small that
    its code is 0. *)
Definition argument s x z :=
  0 < s /\ Rabs z <= 464 /\
  (Rabs (z - x / s) <= path 3 * Rabs (x / s) \/ (code z = 0 /\ Rabs x <= s * (tiny * (1 + 2 * u)))).

Definition operand_error s x :=
  Rmin (Rmax (Rabs x / 17) (s * tiny) + path 4 * Rabs x) (Rabs x * (1 + path 8)).

Lemma path_positive : forall k, 0 <= path k.
Proof. intro k. unfold path. assert (G : 1 <= (1 + u) ^ k) by (apply pow_R1_Rle; assert (U := u_positive); lra). lra. Qed.

Theorem operand_cast_underflow :
  forall s x z, argument s x z -> Rabs (s * code z - x) <= operand_error s x.
Proof.
  intros s x z (Hs & H4 & [Z | (Z & X)]).
  - apply operand_cast; assumption.
  - rewrite Z. replace (s * 0 - x) with (- x) by ring. rewrite Rabs_Ropp. unfold operand_error.
    assert (U := u_small). assert (A := Rabs_pos x). assert (M := Rmax_r (Rabs x / 17) (s * tiny)).
    assert (P8 := path_positive 8).
    assert (P4 : 4 * u <= path 4).
    { unfold path. simpl. assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra).
      assert (0 <= u * (u * (u * u))) by (apply Rmult_le_pos; lra). lra. }
    apply Rmin_glb.
    + assert (4 * u * Rabs x <= path 4 * Rabs x) by (apply Rmult_le_compat_r; lra).
      assert (B : Rabs x * (1 - 4 * u) <= s * tiny).
      { assert (ST : 0 < s * tiny) by (apply Rmult_lt_0_compat; [exact Hs | apply tiny_positive]).
        assert (Rabs x * (1 - 4 * u) <= s * (tiny * (1 + 2 * u)) * (1 - 4 * u)) by (apply Rmult_le_compat_r; lra).
        assert (0 <= s * tiny * (2 * u + 8 * (u * u))) by (apply Rmult_le_pos; [lra | nra]). lra. }
      lra.
    + assert (0 <= Rabs x * path 8) by (apply Rmult_le_pos; lra). lra.
Qed.

(** A division by the scale is such an argument, whatever underflows. *)
Theorem division_is_argument :
  forall s x, 0 < s -> Rabs (rnd (x / s)) <= 464 -> argument s x (rnd (x / s)).
Proof.
  assert (P : forall s x, 0 < s -> 0 <= x -> Rabs (rnd (x / s)) <= 464 -> argument s x (rnd (x / s))).
  { intros s x Hs Hx H4. assert (U := u_small).
    assert (Y : 0 <= x / s) by (unfold Rdiv; apply Rmult_le_pos; [exact Hx | left; apply Rinv_0_lt_compat; exact Hs]).
    split; [exact Hs | split; [exact H4 |]].
    destruct (quotient_cases (x / s) Y) as [(_ & _ & E) | (Z & T)]; [left | right].
    - rewrite (Rabs_right (x / s)) by lra.
      assert (P3 : u <= path 3).
      { unfold path. simpl. assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra). lra. }
      assert (u * (x / s) <= path 3 * (x / s)) by (apply Rmult_le_compat_r; assumption). lra.
    - split; [exact Z |]. rewrite Rabs_right by lra. replace x with (s * (x / s)) at 1 by (field; lra).
      apply Rmult_le_compat_l; lra. }
  intros s x Hs H4. destruct (Rle_or_lt 0 x) as [S | L]; [apply P; assumption |].
  assert (O : rnd (x / s) = - rnd (- x / s)).
  { replace (x / s) with (- (- x / s)) by (field; lra). apply rnd_opp. }
  assert (H4' : Rabs (rnd (- x / s)) <= 464) by (rewrite O, Rabs_Ropp in H4; exact H4).
  destruct (P s (- x) Hs ltac:(lra) H4') as (_ & _ & C).
  split; [exact Hs | split; [exact H4 |]]. rewrite O. destruct C as [C | (C & D)]; [left | right].
  - replace (- rnd (- x / s) - x / s) with (- (rnd (- x / s) - - x / s)) by (field; lra).
    rewrite Rabs_Ropp. replace (Rabs (x / s)) with (Rabs (- x / s)); [exact C |].
    replace (- x / s) with (- (x / s)) by (field; lra). apply Rabs_Ropp.
  - rewrite code_opp, C, Ropp_0. split; [reflexivity |]. rewrite Rabs_Ropp in D. exact D.
Qed.
