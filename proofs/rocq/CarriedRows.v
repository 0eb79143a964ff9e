(** The row after the zero-sum cast: chains of numbers that are divided by their tile's scale.

    Section 4. As [Known.zero_sum_scaled], from the numbers themselves: quotients are rounded, may
    underflow, and may pass 448 by a last place, after which a carry grows. *)
Require Import Reals Lra Lia List Permutation.
From Flocq Require Import Core Relative Plus_error.
From dmverify Require Import Binary32 Sums Casts Known Ledger Rounding Codes Casting Kernel.
Import ListNotations.
Open Scope R_scope.

(** Numbers d of a chain under a scale s, each with its quotient x. *)
Definition links := list (R * R).

Definition quotients s (l : links) :=
  forall x d, In (x, d) l -> x = rnd (d / s) /\ Rabs x <= 448 + / 32768.

Definition left_over (l : links) := half_unit (last_code 0 0 (map (fun k => fst k) l)) * (1 + / 32768).

Lemma least_argument : forall q, tiny <= Rabs q + Rmax (Rabs q / 16) tiny.
Proof. intro q. assert (A := Rabs_pos q). assert (M := Rmax_r (Rabs q / 16) tiny). lra. Qed.

(** One quotient and one addition, together: where one underflows the other loses nothing else. *)
Lemma quotient_and_addition :
  forall d s c, 0 < s -> binary32 c -> let x := rnd (d / s) in let t := rnd (x + c) in
  Rabs t <= 896 -> Rabs t <= Rabs (code t) + Rmax (Rabs (code t) / 16) tiny ->
  Rabs (t - (x + c)) + Rabs (x - d / s) <=
    u * (Rabs (code t) + Rmax (Rabs (code t) / 16) tiny) + path 4 * (Rabs d / s).
Proof.
  intros d s c Hs F x t T A. assert (U := u_small). assert (P4 := path_positive 4).
  assert (D : Rabs d / s = Rabs (d / s)).
  { unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ s)); [reflexivity | left; apply Rinv_0_lt_compat; exact Hs]. }
  rewrite D. assert (D0 := Rabs_pos (d / s)).
  destruct (Rle_or_lt (bpow radix2 (emin + prec - 1)) (Rabs (d / s))) as [N | S].
  - destruct (rounding_error (d / s) N) as (E & _). fold x in E.
    assert (E2 : Rabs (t - (x + c)) <= u * Rabs t).
    { destruct (FLT_plus_error_N_round_ex radix2 emin prec (fun z => negb (Z.even z)) x c (rnd_format _) F) as (e & He & Hr).
      assert (Hr' : x + c = t * (1 + e)) by exact Hr.
      replace (t - (x + c)) with (- e * t) by (rewrite Hr'; ring). rewrite Rabs_mult, Rabs_Ropp.
      apply Rmult_le_compat_r; [apply Rabs_pos |]. eapply Rle_trans. exact He. unfold u_ro, u. lra. }
    assert (u * Rabs t <= u * (Rabs (code t) + Rmax (Rabs (code t) / 16) tiny)) by (apply Rmult_le_compat_l; lra).
    assert (uP : u <= path 4).
    { unfold path. simpl. assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra).
      assert (0 <= u * (u * (u * u))) by (apply Rmult_le_pos; lra). lra. }
    assert (u * Rabs (d / s) <= path 4 * Rabs (d / s)) by (apply Rmult_le_compat_r; assumption). lra.
  - set (b := bpow radix2 (emin + prec - 1)) in *.
    assert (X : Rabs x <= b).
    { apply rnd_within; [apply format_power; unfold emin, prec; lia | lra]. }
    assert (E1 : Rabs (t - (x + c)) <= Rabs x).
    { unfold t. rewrite (Rplus_comm x c). apply rnd_candidate. exact F. }
    assert (E2 : Rabs (x - d / s) <= eta).
    { assert (E : Rabs (rnd (d / s) - d / s) <= / 2 * ulp radix2 fexp (d / s)) by apply (error_le_half_ulp radix2 fexp (fun z => negb (Z.even z)) (d / s)).
      unfold fexp in E. rewrite ulp_FLT_small in E; [exact E | apply prec_positive |].
      eapply Rlt_trans. exact S. apply bpow_lt. lia. }
    assert (B : b + eta <= u * tiny).
    { unfold b, eta, u, tiny, prec, emin. assert (H : bpow radix2 (-149 + 24 - 1) <= bpow radix2 (- 60)) by (apply bpow_le; lia).
      assert (H' : bpow radix2 (-149) <= bpow radix2 (- 60)) by (apply bpow_le; lia). simpl in *. lra. }
    assert (u * tiny <= u * (Rabs (code t) + Rmax (Rabs (code t) / 16) tiny)) by (apply Rmult_le_compat_l; [lra | apply least_argument]).
    assert (0 <= path 4 * Rabs (d / s)) by (apply Rmult_le_pos; assumption). lra.
Qed.

(** zero-sum, from the numbers: at most 16 of a chain. *)
Theorem zero_sum_divided :
  forall l s, 0 < s -> quotients s l -> (length l <= 16)%nat ->
  let xs := map (fun k : R * R => fst k) l in let ds := map (fun k : R * R => snd k) l in
  Rabs (s * codes 0 xs - row_total (fun d => d) ds) <=
    s * left_over l + s * (u * arguments 0 xs) + path 4 * row_total Rabs ds.
Proof.
  intros l s Hs H L xs ds. assert (U := u_small).
  assert (G : forall l c q k, binary32 c -> Rabs c <= 16 + IZR k / 32768 -> Rabs c <= half_unit q * (1 + / 32768) ->
    (0 <= k)%Z -> (k + Z.of_nat (length l) <= 16)%Z -> quotients s l ->
    let xs := map (fun k : R * R => fst k) l in let ds := map (fun k : R * R => snd k) l in
    Rabs (last_carry c xs) <= half_unit (last_code c q xs) * (1 + / 32768) /\
    Rabs (slips c xs) + Rabs (row_total (fun x => x) xs - row_total (fun d => d / s) ds) <=
      u * arguments c xs + path 4 * row_total (fun d => Rabs d / s) ds).
  { clear l H L xs ds. induction l as [| [x d] l IH]; intros c q k F C Q K0 K H xs ds; unfold xs, ds; simpl.
    - replace (0 - 0) with 0 by ring. rewrite !Rabs_R0. split; [exact Q | lra].
    - destruct (H x d (or_introl eq_refl)) as (E & X).
      assert (KR : IZR k <= 15) by (apply IZR_le; simpl length in K; lia). assert (K1 : 0 <= IZR k) by (apply IZR_le; exact K0).
      assert (CG := carry_grows k x c ltac:(simpl length in K; lia) X C).
      set (t := rnd (x + c)) in *.
      assert (T : Rabs t <= 896).
      { apply rnd_within; [apply (small_integers 896); reflexivity |]. eapply Rle_trans. apply Rabs_triang. lra. }
      assert (FK : binary32 (carried c x)) by (unfold carried; apply carry_exact; [apply rnd_format | exact T]).
      assert (HU : half_unit (code t) * 1 <= half_unit (code t) * (1 + / 32768)).
      { apply Rmult_le_compat_l; [| lra]. assert (Z := half_unit_tiny (code t)). assert (Z' := tiny_positive). lra. }
      assert (QK : Rabs (carried c x) <= half_unit (code t) * (1 + / 32768)).
      { unfold carried. fold t. destruct (Rle_or_lt (Rabs t) 464) as [S | B].
        - rewrite Rabs_minus_sym. assert (Z := code_half_unit t S). lra.
        - unfold carried in CG. fold t in CG.
          assert (H16 : half_unit (code t) = 16).
          { destruct (Rle_or_lt 0 t) as [P | P].
            - rewrite (Rabs_right t) in B by lra. rewrite code_beyond by lra. apply half_unit_448.
            - rewrite (Rabs_left t) in B by lra. replace (code t) with (- code (- t)) by (rewrite code_opp; ring).
              rewrite half_unit_opp, code_beyond by lra. apply half_unit_448. }
          rewrite H16. rewrite plus_IZR in CG. eapply Rle_trans. exact CG. lra. }
      assert (TB : Rabs t <= Rabs (code t) + Rmax (Rabs (code t) / 16) tiny).
      { destruct (Rle_or_lt (Rabs t) 464) as [S | B].
        - assert (TT := Rabs_triang (code t) (- (code t - t))).
          replace (code t + - (code t - t)) with t in TT by ring. rewrite Rabs_Ropp in TT.
          assert (Z := half_unit_of_code (code t)). assert (Z' := code_half_unit t S). lra.
        - assert (TG : Rabs (t - code t) <= 16 + 16 / 32768).
          { unfold carried in CG. fold t in CG. rewrite plus_IZR in CG. lra. }
          assert (C448 : Rabs (code t) = 448).
          { destruct (Rle_or_lt 0 t) as [P | P].
            - rewrite (Rabs_right t) in B by lra. rewrite code_beyond by lra. rewrite Rabs_right; lra.
            - rewrite (Rabs_left t) in B by lra. replace (code t) with (- code (- t)) by (rewrite code_opp; ring).
              rewrite Rabs_Ropp, code_beyond by lra. rewrite Rabs_right; lra. }
          rewrite C448. assert (M := Rmax_l (448 / 16) tiny).
          assert (TT := Rabs_triang (t - code t) (code t)). replace (t - code t + code t) with t in TT by ring. lra. }
      assert (QA := quotient_and_addition d s c Hs F). cbv zeta in QA. rewrite <- E in QA. fold t in QA. specialize (QA T TB).
      destruct (IH (carried c x) (code t) (k + 1)%Z FK CG QK ltac:(lia) ltac:(simpl length in K; lia)) as (LC & SL).
      { intros y e I. apply H. right. exact I. }
      split; [exact LC |]. cbv zeta in SL.
      assert (T1 := Rabs_triang (t - (x + c)) (slips (carried c x) (map (fun k : R * R => fst k) l))).
      match goal with |- _ + Rabs ?y <= _ => replace y with ((x - d / s) + (row_total (fun x => x) (map (fun k : R * R => fst k) l)
        - row_total (fun d => d / s) (map (fun k : R * R => snd k) l))) by ring end.
      assert (T2 := Rabs_triang (x - d / s) (row_total (fun x => x) (map (fun k : R * R => fst k) l)
        - row_total (fun d => d / s) (map (fun k : R * R => snd k) l))). lra. }
  assert (C0 : Rabs 0 <= 16 + IZR 0 / 32768) by (rewrite Rabs_R0; lra).
  assert (Q0 : Rabs 0 <= half_unit 0 * (1 + / 32768)).
  { rewrite Rabs_R0. apply Rmult_le_pos; [| lra]. assert (Z := half_unit_tiny 0). assert (Z' := tiny_positive). lra. }
  destruct (G l 0 0 0%Z format_0 C0 Q0 ltac:(lia) ltac:(lia) H) as (LC & SL). fold xs ds in LC, SL. cbv zeta in SL.
  fold xs in SL. fold ds in SL.
  assert (scaled : forall f, s * row_total (fun d => f d / s) ds = row_total f ds).
  { intro f. clear - Hs. induction ds as [| d ds IH]; simpl; [ring | rewrite Rmult_plus_distr_l, IH; field; lra]. }
  rewrite zero_sum_identity, Rplus_0_r.
  replace (s * (row_total (fun x => x) xs - last_carry 0 xs + slips 0 xs) - row_total (fun d => d) ds)
    with (s * (- last_carry 0 xs + (slips 0 xs + (row_total (fun x => x) xs - row_total (fun d => d / s) ds))))
    by (rewrite <- (scaled (fun d => d)); ring).
  rewrite Rabs_mult, (Rabs_right s) by lra.
  apply Rle_trans with (s * (left_over l + (u * arguments 0 xs + path 4 * row_total (fun d => Rabs d / s) ds))).
  - apply Rmult_le_compat_l; [lra |]. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. unfold left_over. fold xs.
    apply Rplus_le_compat; [exact LC |]. eapply Rle_trans. apply Rabs_triang. exact SL.
  - rewrite !Rmult_plus_distr_l. apply Req_le. rewrite <- (scaled Rabs). ring.
Qed.

(** The whole row: chains of all tiles, whose numbers are the row's in some order. *)
Definition scaled_chain := (R * links)%type.

Fixpoint chained f (c : list scaled_chain) : R :=
  match c with [] => 0 | (s, l) :: c => f s l + chained f c end.

Definition carried_chains (c : list scaled_chain) :=
  forall s l, In (s, l) c -> 0 < s /\ quotients s l /\ (length l <= 16)%nat.

Definition row_of (c : list scaled_chain) := flat_map (fun k => map (fun d : R * R => snd d) (snd k)) c.

Theorem after_zero_sum :
  forall n dS c before, carried_chains c -> Permutation (row_of c) (numbers n dS) -> Rabs (Sum n dS) <= before ->
  Rabs (chained (fun s l => s * codes 0 (map (fun k => fst k) l)) c) <=
    before + chained (fun s l => s * left_over l) c + chained (fun s l => s * (u * arguments 0 (map (fun k => fst k) l))) c
    + path 4 * Sum n (fun j => Rabs (dS j)).
Proof.
  intros n dS c before C P H.
  assert (RT : forall f l, row_total f l = added (map f l)).
  { intros f l. unfold added. induction l as [| x l IH]; simpl; [reflexivity | rewrite IH; reflexivity]. }
  assert (D : Rabs (chained (fun s l => s * codes 0 (map (fun k => fst k) l)) c - added (row_of c)) <=
    chained (fun s l => s * left_over l) c + chained (fun s l => s * (u * arguments 0 (map (fun k => fst k) l))) c
    + path 4 * added (map Rabs (row_of c))).
  { clear P H. induction c as [| [s l] c IH]; simpl.
    - unfold added. simpl. replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
    - destruct (C s l (or_introl eq_refl)) as (S & Q & L). assert (E := zero_sum_divided l s S Q L). cbv zeta in E.
      assert (T : Rabs (chained (fun s l => s * codes 0 (map (fun k => fst k) l)) c - added (row_of c)) <=
        chained (fun s l => s * left_over l) c + chained (fun s l => s * (u * arguments 0 (map (fun k => fst k) l))) c
        + path 4 * added (map Rabs (row_of c))).
      { apply IH. intros s' l' I. apply C. right. exact I. }
      rewrite !map_app, !added_app. rewrite !RT, map_id in E.
      match goal with |- Rabs ?y <= _ => replace y with ((s * codes 0 (map (fun k => fst k) l) - added (map (fun d : R * R => snd d) l))
        + (chained (fun s l => s * codes 0 (map (fun k => fst k) l)) c - added (row_of c))) by (unfold row_of; ring) end.
      eapply Rle_trans. apply Rabs_triang. unfold row_of in T. unfold row_of. lra. }
  rewrite (added_permutation _ _ P), added_numbers in D.
  assert (A : added (map Rabs (row_of c)) = Sum n (fun j => Rabs (dS j))).
  { exact (added_of n R dS Rabs (row_of c) P). }
  rewrite A in D.
  replace (chained (fun s l => s * codes 0 (map (fun k => fst k) l)) c)
    with ((chained (fun s l => s * codes 0 (map (fun k => fst k) l)) c - Sum n dS) + Sum n dS) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.
