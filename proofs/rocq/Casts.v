(** The casts of dS to E4M3: to nearest, and with the error carried along (zero-sum).

    Section 4. E4M3 has 4 significant bits and the smallest positive number 2^-9; codes saturate at
    448. A row of a tile is a list of code units x; dS is x times the tile's scale, a power of two or
    not, so that all bounds here are in code units. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core Relative Sterbenz.
From dmverify Require Import Binary32.
Import ListNotations.
Open Scope R_scope.

Definition fexp8 := FLT_exp (-9) 4.
Definition rn8 := round radix2 fexp8 ZnearestE.
Definition tiny := / 1024. (* 2^-10, half the smallest positive code *)

Global Instance prec8_positive : Prec_gt_0 4.
Proof. unfold Prec_gt_0; lia. Qed.

Global Instance fexp8_valid : Valid_exp fexp8.
Proof. apply FLT_exp_valid. exact prec8_positive. Qed.

Global Instance fexp8_monotone : Monotone_exp fexp8.
Proof. apply FLT_exp_monotone. Qed.

Global Instance fexp_monotone : Monotone_exp fexp.
Proof. apply FLT_exp_monotone. Qed.

(** Saturation. *)
Definition sat x := Rmax (- 448) (Rmin 448 x).
Definition code x := sat (rn8 x).

(** What a cast may be off, in code units: a 17th of a normal number, else itself or 2^-10. *)
Definition cast_bound x := if Rle_dec (/ 64) (Rabs x) then Rabs x / 17 else Rmin (Rabs x) tiny.

Lemma rn8_error_itself : forall x, Rabs (rn8 x - x) <= Rabs x.
Proof.
  intro x. unfold rn8.
  destruct (round_N_pt radix2 fexp8 (fun z => negb (Z.even z)) x) as [_ H].
  specialize (H 0 (generic_format_0 radix2 fexp8)).
  replace (0 - x) with (- x) in H by ring. rewrite Rabs_Ropp in H. exact H.
Qed.

(** e4m3-error, with the term that keeps it below the number: |RN8(x) - x| <= |x|. *)
Lemma rn8_error : forall x, Rabs (rn8 x - x) <= cast_bound x.
Proof.
  intro x. unfold cast_bound. destruct (Rle_dec (/ 64) (Rabs x)) as [N | S].
  - destruct (relative_error_N_FLX'_ex radix2 4 prec8_positive (fun z => negb (Z.even z)) x)
      as (e & He & Hr).
    assert (R : rn8 x = x * (1 + e)).
    { rewrite <- Hr. unfold rn8, fexp8. apply round_FLT_FLX. simpl. lra. }
    replace (u_ro radix2 4) with (/ 16) in He by (unfold u_ro; simpl; lra).
    replace (/ 16 / (1 + / 16)) with (/ 17) in He by field.
    rewrite R. replace (x * (1 + e) - x) with (e * x) by ring. rewrite Rabs_mult.
    unfold Rdiv. rewrite Rmult_comm. apply Rmult_le_compat_l; [apply Rabs_pos | exact He].
  - apply Rmin_glb; [apply rn8_error_itself |].
    unfold rn8. eapply Rle_trans. apply error_le_half_ulp. apply fexp8_valid.
    unfold fexp8. rewrite ulp_FLT_small; [simpl; unfold tiny; lra | unfold Prec_gt_0; lia |].
    simpl. lra.
Qed.

Lemma format_448 : generic_format radix2 fexp8 448.
Proof.
  replace 448 with (F2R (Float radix2 7 6)) by (unfold F2R; simpl; lra).
  apply generic_format_F2R. intro H. unfold cexp.
  assert (M : (mag radix2 (F2R (Float radix2 7 6)) = 9 :> Z)%Z).
  { apply mag_unique_pos. unfold F2R. simpl. lra. }
  rewrite M. unfold fexp8, FLT_exp. lia.
Qed.

Lemma rn8_opp : forall x, rn8 (- x) = - rn8 x.
Proof. intro x. unfold rn8. apply round_NE_opp. Qed.

Lemma rn8_below : forall x, x <= 448 -> rn8 x <= 448.
Proof. intros x H. unfold rn8. apply round_le_generic; [apply fexp8_valid | apply valid_rnd_N | apply format_448 | exact H]. Qed.

Lemma rn8_above : forall x, 448 <= x -> 448 <= rn8 x.
Proof. intros x H. unfold rn8. apply round_ge_generic; [apply fexp8_valid | apply valid_rnd_N | apply format_448 | exact H]. Qed.

Lemma sat_opp : forall x, sat (- x) = - sat x.
Proof.
  intro x. unfold sat, Rmin, Rmax. repeat destruct Rle_dec; lra.
Qed.

Lemma code_opp : forall x, code (- x) = - code x.
Proof. intro x. unfold code. rewrite rn8_opp. apply sat_opp. Qed.

Lemma code_within : forall x, Rabs x <= 448 -> code x = rn8 x.
Proof.
  intros x H. apply Rabs_le_inv in H.
  assert (P := rn8_below x). assert (N := rn8_below (- x)). rewrite rn8_opp in N.
  unfold code, sat. rewrite Rmin_right by lra. apply Rmax_right. lra.
Qed.

Lemma code_beyond : forall x, 448 <= x -> code x = 448.
Proof.
  intros x H. assert (P := rn8_above x H). unfold code, sat.
  rewrite Rmin_left by lra. apply Rmax_right. lra.
Qed.

(** Half a unit of the largest codes is 16. *)
Lemma rn8_error_16 : forall x, Rabs x <= 448 -> Rabs (rn8 x - x) <= 16.
Proof.
  intros x H. unfold rn8.
  eapply Rle_trans. apply error_le_half_ulp. apply fexp8_valid.
  assert (L : ulp radix2 fexp8 x <= ulp radix2 fexp8 448).
  { apply ulp_le; [apply fexp8_valid | apply fexp8_monotone |]. rewrite (Rabs_right 448) by lra. exact H. }
  assert (E : ulp radix2 fexp8 448 = 32).
  { rewrite ulp_neq_0 by lra. unfold cexp.
    assert (G : (mag radix2 448 = 9 :> Z)%Z) by (apply mag_unique_pos; simpl; lra).
    rewrite G. unfold fexp8, FLT_exp. simpl. lra. }
  lra.
Qed.

(** A code against its number, saturation included. *)
Lemma code_error_16 : forall t, Rabs t <= 464 -> Rabs (code t - t) <= 16.
Proof.
  assert (P : forall t, 0 <= t <= 464 -> Rabs (code t - t) <= 16).
  { intros t H. destruct (Rle_or_lt t 448) as [S | L].
    - rewrite code_within by (rewrite Rabs_right; lra). apply rn8_error_16. rewrite Rabs_right; lra.
    - rewrite code_beyond by lra. apply Rabs_le. lra. }
  intros t H. destruct (Rle_or_lt 0 t) as [S | L].
  - apply P. rewrite Rabs_right in H; lra.
  - replace (code t - t) with (- (code (- t) - - t)) by (rewrite code_opp; ring).
    rewrite Rabs_Ropp. apply P. rewrite Rabs_left in H; lra.
Qed.

Lemma code_error : forall t, Rabs t <= 464 -> Rabs (code t - t) <= cast_bound t.
Proof.
  assert (P : forall t, 0 <= t <= 464 -> Rabs (code t - t) <= cast_bound t).
  { intros t H. destruct (Rle_or_lt t 448) as [S | L].
    - rewrite code_within by (rewrite Rabs_right; lra). apply rn8_error.
    - rewrite code_beyond by lra. unfold cast_bound. rewrite (Rabs_right t) by lra.
      destruct (Rle_dec (/ 64) t); [apply Rabs_le; lra | lra]. }
  intros t H. destruct (Rle_or_lt 0 t) as [S | L].
  - apply P. rewrite Rabs_right in H; lra.
  - replace (code t - t) with (- (code (- t) - - t)) by (rewrite code_opp; ring).
    rewrite Rabs_Ropp. replace (cast_bound t) with (cast_bound (- t)).
    + apply P. rewrite Rabs_left in H; lra.
    + unfold cast_bound. rewrite Rabs_Ropp. reflexivity.
Qed.

Fixpoint row_total (f : R -> R) (l : list R) : R :=
  match l with [] => 0 | x :: l => f x + row_total f l end.

(** cast-row-sum, nearest: every element's own error. It is at most the sum of |x|, whatever the
    scale; at most a 17th of it where no code is subnormal. *)
Theorem nearest_cast :
  forall l, (forall x, In x l -> Rabs x <= 448) ->
  Rabs (row_total code l - row_total (fun x => x) l) <= row_total cast_bound l.
Proof.
  induction l as [| x l IH]; intro H; simpl.
  - replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - assert (X : Rabs x <= 464) by (assert (H0 := H x (or_introl eq_refl)); lra).
    assert (E := code_error x X).
    assert (T : Rabs (row_total code l - row_total (fun x => x) l) <= row_total cast_bound l).
    { apply IH. intros y Y. apply H. right. exact Y. }
    replace (code x + row_total code l - (x + row_total (fun x => x) l))
      with ((code x - x) + (row_total code l - row_total (fun x => x) l)) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

Theorem nearest_cast_at_most_itself :
  forall l, (forall x, In x l -> Rabs x <= 448) ->
  Rabs (row_total code l - row_total (fun x => x) l) <= row_total Rabs l.
Proof.
  intros l H. eapply Rle_trans. apply nearest_cast. exact H.
  clear H. induction l as [| x l IH]; simpl; [lra |].
  apply Rplus_le_compat; [| exact IH].
  unfold cast_bound. assert (P := Rabs_pos x).
  destruct Rle_dec; [lra | apply Rmin_l].
Qed.

Theorem nearest_cast_normal :
  forall l, (forall x, In x l -> Rabs x <= 448 /\ (x = 0 \/ / 64 <= Rabs x)) ->
  Rabs (row_total code l - row_total (fun x => x) l) <= / 17 * row_total Rabs l.
Proof.
  intros l H. eapply Rle_trans. apply nearest_cast. intros x X. apply H in X. tauto.
  induction l as [| x l IH]; simpl; [lra |].
  assert (T : row_total cast_bound l <= / 17 * row_total Rabs l).
  { apply IH. intros y Y. apply H. right. exact Y. }
  destruct (H x (or_introl eq_refl)) as (_ & N).
  assert (C : cast_bound x <= / 17 * Rabs x).
  { unfold cast_bound. destruct N as [Z | L].
    - rewrite Z, Rabs_R0. destruct Rle_dec; [lra |]. eapply Rle_trans. apply Rmin_l. lra.
    - destruct Rle_dec; [lra | contradiction]. }
  lra.
Qed.

(** carry-exact: a code and its number are within a factor of two, so that their difference is a
    binary32 number. *)
Lemma code_format : forall x, binary32 (code x).
Proof.
  assert (I : forall x, generic_format radix2 fexp8 x -> binary32 x).
  { intros x H. unfold binary32. revert H. apply generic_inclusion_mag. intro N.
    unfold fexp, fexp8, FLT_exp, prec, emin. lia. }
  intro x. unfold code, sat.
  assert (F : generic_format radix2 fexp8 (rn8 x)).
  { apply generic_format_round; [apply fexp8_valid | apply valid_rnd_N]. }
  assert (O : generic_format radix2 fexp8 (- 448)) by (apply generic_format_opp; apply format_448).
  apply I. unfold Rmax. destruct Rle_dec; [| exact O].
  unfold Rmin. destruct Rle_dec; [apply format_448 | exact F].
Qed.

Lemma code_0_or_near : forall t, 0 <= t <= 896 -> code t = 0 \/ code t / 2 <= t <= 2 * code t.
Proof.
  intros t H. destruct (Rle_or_lt t 448) as [S | L].
  - rewrite code_within by (rewrite Rabs_right; lra).
    assert (E := rn8_error_itself t). rewrite (Rabs_right t) in E by lra.
    assert (B := rn8_error t). unfold cast_bound in B. rewrite (Rabs_right t) in B by lra.
    assert (P : 0 <= rn8 t).
    { unfold rn8. apply round_ge_generic; [apply fexp8_valid | apply valid_rnd_N | apply generic_format_0 | lra]. }
    destruct (Req_dec (rn8 t) 0) as [Z | N]; [left; exact Z | right].
    (* the smallest code above 0 is 2^-9 *)
    assert (Q : / 512 <= rn8 t).
    { destruct (Rle_or_lt (/ 512) (rn8 t)) as [Q | Q]; [exact Q |]. exfalso.
      assert (F : generic_format radix2 fexp8 (rn8 t)).
      { apply generic_format_round; [apply fexp8_valid | apply valid_rnd_N]. }
      assert (M := generic_format_ge_bpow radix2 fexp8 (-9)).
      assert (Hm : forall e, (-9 <= fexp8 e)%Z) by (intro e; unfold fexp8, FLT_exp; lia).
      specialize (M Hm (rn8 t)). assert (Pp : 0 < rn8 t) by lra. specialize (M Pp F). simpl in M. lra. }
    apply Rabs_le_inv in E. apply Rabs_le_inv in B.
    unfold tiny in B. revert B. destruct Rle_dec; [lra |].
    assert (G := Rmin_r t (/ 1024)). assert (G' := Rmin_l t (/ 1024)). lra.
  - right. rewrite code_beyond by lra. lra.
Qed.

Lemma carry_exact : forall t, binary32 t -> Rabs t <= 896 -> binary32 (t - code t).
Proof.
  assert (P : forall t, binary32 t -> 0 <= t <= 896 -> binary32 (t - code t)).
  { intros t F H. destruct (code_0_or_near t H) as [Z | N].
    - rewrite Z, Rminus_0_r. exact F.
    - apply sterbenz; [apply fexp_valid | apply fexp_monotone | exact F | apply code_format | exact N]. }
  intros t F H. destruct (Rle_or_lt 0 t) as [S | L].
  - apply P; [exact F |]. rewrite Rabs_right in H; lra.
  - replace (t - code t) with (- (- t - code (- t))) by (rewrite code_opp; ring).
    apply generic_format_opp. apply P; [apply generic_format_opp; exact F |].
    rewrite Rabs_left in H; lra.
Qed.

(** The zero-sum cast: t = rnd(x + c), the code of t, and c = t - code, which needs no rounding. *)
Definition carried c x := rnd (x + c) - code (rnd (x + c)).

Fixpoint codes (c : R) (l : list R) : R :=
  match l with [] => 0 | x :: l => code (rnd (x + c)) + codes (carried c x) l end.

Fixpoint last_carry (c : R) (l : list R) : R :=
  match l with [] => c | x :: l => last_carry (carried c x) l end.

(** The additions' own roundings. *)
Fixpoint slips (c : R) (l : list R) : R :=
  match l with [] => 0 | x :: l => (rnd (x + c) - (x + c)) + slips (carried c x) l end.

(** carry-telescopes: an identity, whatever the codes are. *)
Theorem zero_sum_identity :
  forall l c, codes c l = row_total (fun x => x) l + c - last_carry c l + slips c l.
Proof.
  induction l as [| x l IH]; intro c; simpl; [ring |].
  rewrite IH. unfold carried. ring.
Qed.

Lemma rnd_below : forall x y, binary32 y -> x <= y -> rnd x <= y.
Proof. intros x y F H. unfold rnd. apply round_le_generic; [apply fexp_valid | apply valid_rnd_N | exact F | exact H]. Qed.

Lemma format_464 : binary32 464.
Proof.
  replace 464 with (F2R (Float radix2 29 4)) by (unfold F2R; simpl; lra).
  apply generic_format_F2R. intro H. unfold cexp.
  assert (M : (mag radix2 (F2R (Float radix2 29 4)) = 9 :> Z)%Z).
  { apply mag_unique_pos. unfold F2R. simpl. lra. }
  rewrite M. unfold fexp, FLT_exp, prec, emin. lia.
Qed.

Lemma sum_464 : forall x c, Rabs x <= 448 -> Rabs c <= 16 -> Rabs (rnd (x + c)) <= 464.
Proof.
  intros x c X C. apply Rabs_le_inv in X. apply Rabs_le_inv in C.
  assert (P := rnd_below (x + c) 464 format_464).
  assert (N := rnd_below (- (x + c)) 464 format_464).
  assert (O : rnd (- (x + c)) = - rnd (x + c)) by (unfold rnd; apply round_NE_opp).
  rewrite O in N. apply Rabs_le. lra.
Qed.

Theorem carry_16 : forall x c, Rabs x <= 448 -> Rabs c <= 16 -> Rabs (carried c x) <= 16.
Proof.
  intros x c X C. unfold carried. rewrite Rabs_minus_sym. apply code_error_16. apply sum_464; assumption.
Qed.

(** The carry that the kernel computes is the exact one. *)
Theorem carry_needs_no_rounding :
  forall x c, Rabs x <= 448 -> Rabs c <= 16 -> rnd (rnd (x + c) - code (rnd (x + c))) = carried c x.
Proof.
  intros x c X C. unfold carried. unfold rnd at 1. apply round_generic; [apply valid_rnd_N |].
  apply carry_exact; [apply rnd_format |]. assert (H := sum_464 x c X C). lra.
Qed.

(** cast-row-sum, zero-sum: one carry and the additions' roundings, not one error an element. *)
Theorem zero_sum_cast :
  forall l c, binary32 c -> Rabs c <= 16 -> (forall x, In x l -> binary32 x /\ Rabs x <= 448) ->
  Rabs (last_carry c l) <= 16 /\
  Rabs (codes c l - (row_total (fun x => x) l + c)) <=
    Rabs (last_carry c l) + u * row_total (fun x => Rabs x + 16) l.
Proof.
  assert (S : forall l c, binary32 c -> Rabs c <= 16 -> (forall x, In x l -> binary32 x /\ Rabs x <= 448) ->
    Rabs (last_carry c l) <= 16 /\ Rabs (slips c l) <= u * row_total (fun x => Rabs x + 16) l).
  { induction l as [| x l IH]; intros c F C H; simpl.
    - split; [exact C |]. rewrite Rabs_R0. lra.
    - destruct (H x (or_introl eq_refl)) as (Fx & X).
      assert (K : binary32 (carried c x)).
      { unfold carried. apply carry_exact; [apply rnd_format |]. assert (G := sum_464 x c X C). lra. }
      destruct (IH (carried c x) K (carry_16 x c X C)) as (L & T).
      { intros y Y. apply H. right. exact Y. }
      split; [exact L |].
      eapply Rle_trans. apply Rabs_triang.
      assert (E := rnd_plus_error x c Fx F).
      assert (U := u_positive).
      assert (u * Rabs (x + c) <= u * (Rabs x + 16)).
      { apply Rmult_le_compat_l; [lra |]. eapply Rle_trans. apply Rabs_triang. lra. }
      lra. }
  intros l c F C H. destruct (S l c F C H) as (L & T). split; [exact L |].
  rewrite zero_sum_identity.
  replace (row_total (fun x => x) l + c - last_carry c l + slips c l - (row_total (fun x => x) l + c))
    with (- last_carry c l + slips c l) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra.
Qed.
