(** Casts and stores whose result is known: half a unit of what came out, whatever went in.

    Section 4. The ledger sees the codes; with them an error is bounded by half a unit of the code,
    by a share of the number, and by the number itself. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core Relative Plus_error.
From dmverify Require Import Binary32 Sums Stores Casts.
Import ListNotations.
Open Scope R_scope.

(** Half the distance of a code to the next: 2^e / 16 for a code of [2^e, 2^(e+1)), at least 2^-10. *)
Definition half_unit q := Rmax (if Req_EM_T q 0 then 0 else bpow radix2 (mag radix2 q - 1) / 16) tiny.

Lemma rn8_half_unit : forall x, Rabs (rn8 x - x) <= half_unit (rn8 x).
Proof.
  intro x. unfold rn8. eapply Rle_trans. apply error_le_half_ulp_round; [apply fexp8_valid | apply fexp8_monotone].
  fold (rn8 x). set (q := rn8 x). unfold half_unit. destruct (Req_EM_T q 0) as [Z | N].
  - eapply Rle_trans; [| apply Rmax_r]. rewrite Z. unfold fexp8, tiny. rewrite ulp_FLT_small; [simpl; lra | unfold Prec_gt_0; lia |].
    rewrite Rabs_R0. apply bpow_gt_0.
  - rewrite ulp_neq_0 by exact N. unfold cexp, fexp8, FLT_exp.
    destruct (Z.max_spec (mag radix2 q - 4) (-9)) as [(L & E) | (L & E)]; rewrite E.
    + eapply Rle_trans; [| apply Rmax_r]. unfold tiny. simpl. lra.
    + eapply Rle_trans; [| apply Rmax_l]. replace (mag radix2 q - 4)%Z with ((mag radix2 q - 1) + (- 3))%Z by ring.
      rewrite bpow_plus. simpl (bpow radix2 (- 3)). lra.
Qed.

Lemma half_unit_opp : forall q, half_unit (- q) = half_unit q.
Proof.
  intro q. unfold half_unit. rewrite mag_opp. destruct (Req_EM_T q 0); destruct (Req_EM_T (- q) 0); try reflexivity; lra.
Qed.

Lemma half_unit_448 : half_unit 448 = 16.
Proof.
  unfold half_unit. destruct (Req_EM_T 448 0); [lra |].
  assert (G : (mag radix2 448 = 9 :> Z)%Z) by (apply mag_unique_pos; simpl; lra).
  rewrite G. unfold tiny. rewrite Rmax_left; simpl; lra.
Qed.

(** e4m3-half-unit, saturation included. *)
Lemma code_half_unit : forall t, Rabs t <= 464 -> Rabs (code t - t) <= half_unit (code t).
Proof.
  assert (P : forall t, 0 <= t <= 464 -> Rabs (code t - t) <= half_unit (code t)).
  { intros t H. destruct (Rle_or_lt t 448) as [S | L].
    - rewrite code_within by (rewrite Rabs_right; lra). apply rn8_half_unit.
    - rewrite code_beyond by lra. rewrite half_unit_448. apply Rabs_le. lra. }
  intros t H. destruct (Rle_or_lt 0 t) as [S | L].
  - apply P. rewrite Rabs_right in H; lra.
  - replace (code t - t) with (- (code (- t) - - t)) by (rewrite code_opp; ring).
    rewrite Rabs_Ropp. replace (half_unit (code t)) with (half_unit (code (- t))).
    + apply P. rewrite Rabs_left in H; lra.
    + rewrite code_opp. apply half_unit_opp.
Qed.

Lemma half_unit_of_code : forall q, half_unit q <= Rmax (Rabs q / 16) tiny.
Proof.
  intro q. unfold half_unit. destruct (Req_EM_T q 0) as [Z | N].
  - rewrite Z, Rabs_R0. unfold Rdiv. rewrite Rmult_0_l. lra.
  - apply Rmax_lub; [| apply Rmax_r]. eapply Rle_trans; [| apply Rmax_l].
    destruct (mag radix2 q) as (e & He). simpl. specialize (He N). lra.
Qed.

(** nearest, with the codes known; in code units. *)
Theorem nearest_known :
  forall l, (forall x, In x l -> Rabs x <= 448) ->
  Rabs (row_total code l - row_total (fun x => x) l) <=
    row_total (fun x => Rmin (Rmin (Rmax (Rabs x / 17) tiny) (half_unit (code x))) (Rabs x)) l.
Proof.
  induction l as [| x l IH]; intro H; simpl.
  - replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - assert (X : Rabs x <= 448) by (apply H; left; reflexivity).
    assert (E1 := code_error x). assert (E2 := code_half_unit x). assert (E3 := rn8_error_itself x).
    assert (E4 : cast_bound x <= Rmax (Rabs x / 17) tiny).
    { unfold cast_bound. destruct Rle_dec; [apply Rmax_l |]. eapply Rle_trans. apply Rmin_r. apply Rmax_r. }
    rewrite code_within in E1, E2 by exact X. rewrite code_within by exact X.
    assert (E : Rabs (rn8 x - x) <= Rmin (Rmin (Rmax (Rabs x / 17) tiny) (half_unit (rn8 x))) (Rabs x)).
    { apply Rmin_glb; [apply Rmin_glb |]; lra. }
    assert (T : Rabs (row_total code l - row_total (fun x => x) l) <=
      row_total (fun x => Rmin (Rmin (Rmax (Rabs x / 17) tiny) (half_unit (code x))) (Rabs x)) l).
    { apply IH. intros y Y. apply H. right. exact Y. }
    replace (rn8 x + row_total code l - (x + row_total (fun x => x) l))
      with ((rn8 x - x) + (row_total code l - row_total (fun x => x) l)) by ring.
    eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** zero-sum, with the codes known: half a unit of the last code, and one rounding an addition, of
    arguments that their codes bound. *)
Fixpoint last_code (c q : R) (l : list R) : R :=
  match l with [] => q | x :: l => last_code (carried c x) (code (rnd (x + c))) l end.

Fixpoint arguments (c : R) (l : list R) : R :=
  match l with
  | [] => 0
  | x :: l => let q := Rabs (code (rnd (x + c))) in (q + Rmax (q / 16) tiny) + arguments (carried c x) l
  end.

Theorem zero_sum_known :
  forall l c q, binary32 c -> Rabs c <= 16 -> Rabs c <= half_unit q ->
  (forall x, In x l -> binary32 x /\ Rabs x <= 448) ->
  Rabs (codes c l - (row_total (fun x => x) l + c)) <= half_unit (last_code c q l) + u * arguments c l.
Proof.
  intros l c q F C Q H.
  assert (S : forall l c q, binary32 c -> Rabs c <= 16 -> Rabs c <= half_unit q ->
    (forall x, In x l -> binary32 x /\ Rabs x <= 448) ->
    Rabs (last_carry c l) <= half_unit (last_code c q l) /\ Rabs (slips c l) <= u * arguments c l).
  { clear. induction l as [| x l IH]; intros c q F C Q H; simpl.
    - rewrite Rabs_R0. split; [exact Q | lra].
    - destruct (H x (or_introl eq_refl)) as (Fx & X). assert (G := sum_464 x c X C).
      set (t := rnd (x + c)) in *. assert (E := code_half_unit t G).
      assert (K : binary32 (carried c x)) by (unfold carried; apply carry_exact; [apply rnd_format | fold t; lra]).
      assert (QK : Rabs (carried c x) <= half_unit (code t)).
      { unfold carried. fold t. rewrite Rabs_minus_sym. exact E. }
      destruct (IH (carried c x) (code t) K (carry_16 x c X C) QK) as (L & T).
      { intros y Y. apply H. right. exact Y. }
      split; [exact L |].
      assert (U := u_positive).
      assert (TB : Rabs t <= Rabs (code t) + Rmax (Rabs (code t) / 16) tiny).
      { assert (TT := Rabs_triang (code t) (- (code t - t))).
        replace (code t + - (code t - t)) with t in TT by ring. rewrite Rabs_Ropp in TT.
        assert (Z := half_unit_of_code (code t)). lra. }
      assert (E2 : Rabs (t - (x + c)) <= u * Rabs t).
      { destruct (FLT_plus_error_N_round_ex radix2 emin prec (fun z => negb (Z.even z)) x c Fx F) as (e & He & Hr).
        assert (Hr' : x + c = t * (1 + e)) by exact Hr.
        replace (t - (x + c)) with (- e * t) by (rewrite Hr'; ring). rewrite Rabs_mult, Rabs_Ropp.
        apply Rmult_le_compat_r; [apply Rabs_pos |]. eapply Rle_trans. exact He. unfold u_ro, u. lra. }
      assert (u * Rabs t <= u * (Rabs (code t) + Rmax (Rabs (code t) / 16) tiny)) by (apply Rmult_le_compat_l; lra).
      eapply Rle_trans. apply Rabs_triang. lra. }
  destruct (S l c q F C Q H) as (L & T). rewrite zero_sum_identity.
  replace (row_total (fun x => x) l + c - last_carry c l + slips c l - (row_total (fun x => x) l + c))
    with (- last_carry c l + slips c l) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra.
Qed.

(** An element under a scale s that is not a power of two: x / s is rounded once before its code,
    F stands for s 2^-10 with s itself rounded. In the units of x. *)
Theorem scaled_cast :
  forall x s z F, 0 <= x -> 0 < s -> Rabs (z - x / s) <= u * (x / s) -> Rabs z <= 464 ->
  s * tiny <= F * (1 + u) ->
  Rabs (s * code z - x) <= Rmin (Rmax (x / 17) F) x + path 3 * x.
Proof.
  intros x s z F Hx Hs Hz H4 HF. assert (U := u_positive).
  assert (U1 : u <= / 1000) by (unfold u, prec; simpl; lra).
  assert (Z : Rabs (s * z - x) <= u * x).
  { replace (s * z - x) with (s * (z - x / s)) by (field; lra). rewrite Rabs_mult, (Rabs_right s) by lra.
    replace (u * x) with (s * (u * (x / s))) by (field; lra). apply Rmult_le_compat_l; lra. }
  assert (SZ : s * Rabs z <= (1 + u) * x).
  { replace (s * Rabs z) with (Rabs (s * z)) by (rewrite Rabs_mult, (Rabs_right s); lra).
    replace (s * z) with ((s * z - x) + x) by ring. eapply Rle_trans. apply Rabs_triang. rewrite (Rabs_right x); lra. }
  assert (E := code_error z H4).
  assert (T : Rabs (s * code z - x) <= s * cast_bound z + u * x).
  { replace (s * code z - x) with (s * (code z - z) + (s * z - x)) by ring. eapply Rle_trans. apply Rabs_triang.
    rewrite Rabs_mult, (Rabs_right s) by lra. assert (s * Rabs (code z - z) <= s * cast_bound z) by (apply Rmult_le_compat_l; lra). lra. }
  assert (UX : 0 <= u * x) by (apply Rmult_le_pos; lra).
  assert (UUX : 0 <= u * (u * x)) by (apply Rmult_le_pos; lra).
  assert (UUUX : 0 <= u * (u * (u * x))) by (apply Rmult_le_pos; lra).
  assert (P : path 3 * x = 3 * (u * x) + 3 * (u * (u * x)) + u * (u * (u * x))) by (unfold path; ring).
  assert (M := Rmax_l (x / 17) F). assert (M' := Rmax_r (x / 17) F).
  unfold cast_bound in T. destruct Rle_dec as [N | N].
  - replace (s * (Rabs z / 17)) with (s * Rabs z / 17) in T by (unfold Rdiv; ring).
    unfold Rmin. destruct Rle_dec; lra.
  - assert (B1 : s * Rmin (Rabs z) tiny <= s * Rabs z) by (apply Rmult_le_compat_l; [lra | apply Rmin_l]).
    assert (B2 : s * Rmin (Rabs z) tiny <= s * tiny) by (apply Rmult_le_compat_l; [lra | apply Rmin_r]).
    unfold Rmin at 1. destruct Rle_dec as [L | G].
    + assert (u * F <= u * x) by (apply Rmult_le_compat_l; lra). lra.
    + lra.
Qed.

(** An operand whose scale, its inverse and the product are rounded: three roundings before a code. *)
Theorem operand_cast :
  forall x s z, 0 < s -> Rabs (z - x / s) <= path 3 * Rabs (x / s) -> Rabs z <= 464 ->
  Rabs (s * code z - x) <= Rmin (Rmax (Rabs x / 17) (s * tiny) + path 4 * Rabs x) (Rabs x * (1 + path 8)).
Proof.
  intros x s z Hs Hz H4. assert (U := u_positive). assert (U1 : u <= / 1000) by (unfold u, prec; simpl; lra).
  set (a := Rabs x). assert (A : 0 <= a) by apply Rabs_pos.
  assert (AX : s * Rabs (x / s) = a).
  { unfold a, Rdiv. rewrite Rabs_mult, Rabs_inv, (Rabs_right s) by lra. field. lra. }
  assert (Z : Rabs (s * z - x) <= path 3 * a).
  { replace (s * z - x) with (s * (z - x / s)) by (field; lra). rewrite Rabs_mult, (Rabs_right s) by lra.
    rewrite <- AX. replace (path 3 * (s * Rabs (x / s))) with (s * (path 3 * Rabs (x / s))) by ring.
    apply Rmult_le_compat_l; lra. }
  assert (SZ : s * Rabs z <= (1 + path 3) * a).
  { replace (s * Rabs z) with (Rabs (s * z)) by (rewrite Rabs_mult, (Rabs_right s); lra).
    replace (s * z) with ((s * z - x) + x) by ring. eapply Rle_trans. apply Rabs_triang. unfold a in *. lra. }
  assert (E := code_error z H4).
  assert (T : Rabs (s * code z - x) <= s * cast_bound z + path 3 * a).
  { replace (s * code z - x) with (s * (code z - z) + (s * z - x)) by ring. eapply Rle_trans. apply Rabs_triang.
    rewrite Rabs_mult, (Rabs_right s) by lra. assert (s * Rabs (code z - z) <= s * cast_bound z) by (apply Rmult_le_compat_l; lra). lra. }
  assert (CB : cast_bound z <= Rabs z).
  { unfold cast_bound. assert (0 <= Rabs z) by apply Rabs_pos. destruct Rle_dec; [lra | apply Rmin_l]. }
  assert (CT : s * cast_bound z <= Rmax (s * Rabs z / 17) (s * tiny)).
  { unfold cast_bound. destruct Rle_dec.
    - eapply Rle_trans; [| apply Rmax_l]. unfold Rdiv. lra.
    - eapply Rle_trans; [| apply Rmax_r]. apply Rmult_le_compat_l; [lra | apply Rmin_r]. }
  assert (P34 : path 3 * 18 / 17 <= path 4).
  { unfold path. simpl. assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (u * u <= / 1000 * u) by (apply Rmult_le_compat_r; lra).
    assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * (u * u))) by (apply Rmult_le_pos; lra). lra. }
  assert (P38 : 2 * path 3 <= path 8).
  { unfold path. assert (G : 1 <= (1 + u) ^ 3) by (apply pow_R1_Rle; lra). assert (G2 : 1 <= (1 + u) ^ 2) by (apply pow_R1_Rle; lra).
    replace ((1 + u) ^ 8) with ((1 + u) ^ 3 * (1 + u) ^ 3 * (1 + u) ^ 2) by ring.
    set (g := (1 + u) ^ 3) in *. assert (g * g * 1 <= g * g * (1 + u) ^ 2) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | lra]). nra. }
  apply Rmin_glb.
  - unfold Rmax at 1 in CT. assert (M1 := Rmax_l (a / 17) (s * tiny)). assert (M2 := Rmax_r (a / 17) (s * tiny)).
    assert (path 3 * 18 / 17 * a <= path 4 * a) by (apply Rmult_le_compat_r; lra).
    assert (0 <= path 3) by (unfold path; assert (G : 1 <= (1 + u) ^ 3) by (apply pow_R1_Rle; lra); lra).
    assert (0 <= path 3 * a) by (apply Rmult_le_pos; lra).
    destruct Rle_dec; lra.
  - assert (s * cast_bound z <= s * Rabs z) by (apply Rmult_le_compat_l; lra).
    assert (2 * path 3 * a <= path 8 * a) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(** A BF16 store by what was stored: half a unit of the number before it, at least 2^-134. *)
Definition half_bf16 x := Rmax (if Req_EM_T x 0 then 0 else bpow radix2 (mag radix2 x - 9)) (bpow radix2 (- 134)).

Theorem bf16_half_unit : forall x, Rabs (bf16 x - x) <= half_bf16 x.
Proof.
  intro x. unfold bf16. eapply Rle_trans. apply error_le_half_ulp. apply FLT_exp_valid. unfold Prec_gt_0. lia.
  unfold half_bf16. destruct (Req_EM_T x 0) as [Z | N].
  - eapply Rle_trans; [| apply Rmax_r]. rewrite Z, ulp_FLT_small; [| unfold Prec_gt_0; lia | rewrite Rabs_R0; apply bpow_gt_0].
    replace (- 134)%Z with (- 1 + - 133)%Z by ring. rewrite bpow_plus. simpl (bpow radix2 (- 1)). lra.
  - rewrite ulp_neq_0 by exact N. unfold cexp, FLT_exp.
    destruct (Z.max_spec (mag radix2 x - 8) (-133)) as [(L & E) | (L & E)]; rewrite E.
    + eapply Rle_trans; [| apply Rmax_r]. replace (- 134)%Z with (- 1 + - 133)%Z by ring.
      rewrite bpow_plus. simpl (bpow radix2 (- 1)). lra.
    + eapply Rle_trans; [| apply Rmax_l]. replace (mag radix2 x - 9)%Z with (- 1 + (mag radix2 x - 8))%Z by ring.
      rewrite bpow_plus. simpl (bpow radix2 (- 1)). lra.
Qed.

(** The tensor of gradients that delta reads against the one that dP uses: grad, channel by channel. *)
Theorem grad_known :
  forall l, (forall x s z o, In (x, s, z, o) l -> 0 < s /\ Rabs (z - x / s) <= path 3 * Rabs (x / s) /\ Rabs z <= 464) ->
  Rabs (fold_right (fun k t => let '(x, s, z, o) := k in (s * code z - x) * o + t) 0 l) <=
    fold_right (fun k t => let '(x, s, z, o) := k in
      Rmin (Rmax (Rabs x / 17) (s * tiny) + path 4 * Rabs x) (Rabs x * (1 + path 8)) * Rabs o + t) 0 l.
Proof.
  induction l as [| [[[x s] z] o] l IH]; intro H; simpl.
  - rewrite Rabs_R0. lra.
  - destruct (H x s z o (or_introl eq_refl)) as (S & Z & T). assert (C := operand_cast x s z S Z T).
    eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult. apply Rplus_le_compat.
    + apply Rmult_le_compat_r; [apply Rabs_pos | exact C].
    + apply IH. intros x' s' z' o' I. apply (H x' s' z' o'). right. exact I.
Qed.

(** eps of prob: a share x <= P g has a code within the code's error of P, times g. *)
Theorem code_error_coded :
  forall x s z P F g, 0 <= x -> x <= P * g -> 1 <= g -> 0 <= P -> 0 <= F -> 0 < s ->
  Rabs (z - x / s) <= u * (x / s) -> Rabs z <= 464 -> s * tiny <= F * g * (1 + u) ->
  Rabs (s * code z - x) <= (Rmin (Rmax (P / 17) F) P + P * path 3) * g.
Proof.
  intros x s z P F g Hx HxP Hg HP HF Hs Hz H4 HFs.
  assert (C := scaled_cast x s z (F * g) Hx Hs Hz H4 HFs). assert (U := u_positive).
  assert (P3 : 0 <= path 3) by (unfold path; assert (G : 1 <= (1 + u) ^ 3) by (apply pow_R1_Rle; lra); lra).
  assert (path 3 * x <= path 3 * (P * g)) by (apply Rmult_le_compat_l; assumption).
  assert (Rmin (Rmax (x / 17) (F * g)) x <= Rmin (Rmax (P / 17) F) P * g).
  { assert (P / 17 <= Rmax (P / 17) F) by apply Rmax_l. assert (F <= Rmax (P / 17) F) by apply Rmax_r.
    assert (P / 17 * g <= Rmax (P / 17) F * g) by (apply Rmult_le_compat_r; lra).
    assert (F * g <= Rmax (P / 17) F * g) by (apply Rmult_le_compat_r; lra).
    assert (X : Rmax (x / 17) (F * g) <= Rmax (P / 17) F * g) by (apply Rmax_lub; lra).
    unfold Rmin at 2. destruct Rle_dec.
    - eapply Rle_trans. apply Rmin_l. exact X.
    - eapply Rle_trans. apply Rmin_r. exact HxP. }
  lra.
Qed.

(** zero-sum under a scale s: dS / s is rounded up to four times before the addition; c starts at 0. *)
Theorem zero_sum_scaled :
  forall l s, 0 < s ->
  (forall x d, In (x, d) l -> binary32 x /\ Rabs x <= 448 /\ Rabs (s * x - d) <= path 4 * Rabs d) ->
  let xs := map (fun k : R * R => fst k) l in let ds := map (fun k : R * R => snd k) l in
  Rabs (s * codes 0 xs - row_total (fun d => d) ds) <=
    s * half_unit (last_code 0 0 xs) + s * (u * arguments 0 xs) + path 4 * row_total Rabs ds.
Proof.
  intros l s Hs H xs ds.
  assert (F0 : binary32 0) by apply format_0.
  assert (C0 : Rabs 0 <= 16) by (rewrite Rabs_R0; lra).
  assert (Q0 : Rabs 0 <= half_unit 0).
  { rewrite Rabs_R0. unfold half_unit. eapply Rle_trans; [| apply Rmax_r]. unfold tiny. lra. }
  assert (Z := zero_sum_known xs 0 0 F0 C0 Q0).
  assert (HX : forall x, In x xs -> binary32 x /\ Rabs x <= 448).
  { intros x X. unfold xs in X. apply in_map_iff in X. destruct X as ([x' d] & E & I). simpl in E. subst x'.
    destruct (H x d I) as (A & B & _). split; assumption. }
  specialize (Z HX). rewrite Rplus_0_r in Z.
  assert (D : Rabs (s * row_total (fun x => x) xs - row_total (fun d => d) ds) <= path 4 * row_total Rabs ds).
  { unfold xs, ds. clear - H. induction l as [| [x d] l IH]; simpl.
    - replace (s * 0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
    - destruct (H x d (or_introl eq_refl)) as (_ & _ & E).
      assert (T := IH (fun x d I => H x d (or_intror I))).
      match goal with |- Rabs ?y <= _ => replace y with ((s * x - d) + (s * row_total (fun x => x) (map (fun k : R * R => fst k) l) - row_total (fun d => d) (map (fun k : R * R => snd k) l))) by ring end.
      eapply Rle_trans. apply Rabs_triang. lra. }
  replace (s * codes 0 xs - row_total (fun d => d) ds)
    with (s * (codes 0 xs - row_total (fun x => x) xs) + (s * row_total (fun x => x) xs - row_total (fun d => d) ds)) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult, (Rabs_right s) by lra.
  assert (s * Rabs (codes 0 xs - row_total (fun x => x) xs) <= s * (half_unit (last_code 0 0 xs) + u * arguments 0 xs)) by (apply Rmult_le_compat_l; lra).
  lra.
Qed.
