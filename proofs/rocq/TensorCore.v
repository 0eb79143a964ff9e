(** FP8 wgmma: one k32 step, chains of them, in any order of channels.

    Section 5. One step aligns 32 products and the accumulator to the quantum q = 2^(E - 13) of the
    largest exponent E, truncates each toward zero, adds exactly, and truncates the sum toward zero
    to 14 significant bits. [W] is any bound of 2^E. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core Relative.
Import ListNotations.
Open Scope R_scope.

Definition quantum W := W / 8192.
Definition align q x := IZR (Ztrunc (x / q)) * q.
Definition cut := round radix2 (FLX_exp 14) Ztrunc.

Global Instance prec14_positive : Prec_gt_0 14.
Proof. unfold Prec_gt_0; lia. Qed.

Fixpoint total (l : list R) : R := match l with [] => 0 | x :: l => x + total l end.
Fixpoint mass (l : list R) : R := match l with [] => 0 | x :: l => Rabs x + mass l end.

(** One step: the accumulator is one more term. *)
Definition step q c l := cut (total (map (align q) (c :: l))).

Lemma Ztrunc_below : forall x, Rabs (IZR (Ztrunc x)) <= Rabs x.
Proof.
  intro x. rewrite <- abs_IZR, <- Ztrunc_abs. rewrite Ztrunc_floor by apply Rabs_pos. apply Zfloor_lb.
Qed.

Lemma Ztrunc_near : forall x, Rabs (IZR (Ztrunc x) - x) <= 1.
Proof.
  intro x. destruct (Rle_or_lt 0 x) as [P | N].
  - rewrite Ztrunc_floor by exact P. assert (L := Zfloor_lb x). assert (U := Zfloor_ub x).
    apply Rabs_le. lra.
  - rewrite Ztrunc_ceil by lra. assert (U := Zceil_ub x). assert (L := Zceil_lb x).
    apply Rabs_le. lra.
Qed.

Lemma align_below : forall q x, 0 < q -> Rabs (align q x) <= Rabs x.
Proof.
  intros q x Q. unfold align. rewrite Rabs_mult, (Rabs_right q) by lra.
  assert (H := Ztrunc_below (x / q)).
  assert (E : Rabs (x / q) * q = Rabs x).
  { unfold Rdiv. rewrite Rabs_mult, Rabs_inv, (Rabs_right q) by lra. field. lra. }
  rewrite <- E. apply Rmult_le_compat_r; lra.
Qed.

Lemma align_near : forall q x, 0 < q -> Rabs (align q x - x) <= q.
Proof.
  intros q x Q. unfold align.
  replace (IZR (Ztrunc (x / q)) * q - x) with ((IZR (Ztrunc (x / q)) - x / q) * q) by (field; lra).
  rewrite Rabs_mult, (Rabs_right q) by lra.
  apply Rle_trans with (1 * q); [| lra]. apply Rmult_le_compat_r; [lra | apply Ztrunc_near].
Qed.

Lemma aligned_total :
  forall q l, 0 < q ->
  Rabs (total (map (align q) l) - total l) <= INR (length l) * q /\
  Rabs (total (map (align q) l)) <= mass l.
Proof.
  intros q l Q. induction l as [| x l (E & B)].
  - simpl. replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - change (length (x :: l)) with (S (length l)). rewrite S_INR. simpl.
    assert (N := align_near q x Q). assert (L := align_below q x Q). split.
    + replace (align q x + total (map (align q) l) - (x + total l))
        with ((align q x - x) + (total (map (align q) l) - total l)) by ring.
      eapply Rle_trans. apply Rabs_triang. lra.
    + eapply Rle_trans. apply Rabs_triang. lra.
Qed.

Lemma cut_near : forall x, Rabs (cut x - x) <= / 8192 * Rabs x.
Proof.
  intro x. unfold cut.
  destruct (Req_dec x 0) as [Z | N].
  - rewrite Z, round_0 by apply valid_rnd_ZR. replace (0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - left. assert (H := relative_error_FLX radix2 14 prec14_positive Ztrunc x N).
    replace (bpow radix2 (- 14 + 1)) with (/ 8192) in H by (simpl; lra). exact H.
Qed.

Lemma cut_below : forall x, Rabs (cut x) <= Rabs x.
Proof.
  assert (P : forall x, 0 <= x -> Rabs (cut x) <= Rabs x).
  { intros x H. unfold cut. rewrite round_ZR_DN by exact H.
    destruct (round_DN_pt radix2 (FLX_exp 14) x) as (F & L & G).
    assert (Z : 0 <= round radix2 (FLX_exp 14) Zfloor x) by (apply G; [apply generic_format_0 | exact H]).
    rewrite !Rabs_right; lra. }
  intro x. destruct (Rle_or_lt 0 x) as [H | H]; [apply P; exact H |].
  assert (O : cut (- x) = - cut x) by (unfold cut; apply round_ZR_opp).
  assert (Q := P (- x)). rewrite O, !Rabs_Ropp in Q. apply Q. lra.
Qed.

(** wgmma-step: n products beside the accumulator. It never gains magnitude. *)
Theorem one_step :
  forall W c l, 0 < W -> let n := INR (length l) in
  Rabs (step (quantum W) c l - (c + total l)) <=
    / 8192 * ((n + 1) * W + (Rabs c + mass l)) /\
  Rabs (step (quantum W) c l) <= Rabs c + mass l.
Proof.
  intros W c l HW n. unfold step.
  assert (Q : 0 < quantum W) by (unfold quantum; lra).
  destruct (aligned_total (quantum W) (c :: l) Q) as (E & B).
  change (length (c :: l)) with (S (length l)) in E. rewrite S_INR in E.
  change (total (c :: l)) with (c + total l) in E. change (mass (c :: l)) with (Rabs c + mass l) in B.
  fold n in E. set (t := total (map (align (quantum W)) (c :: l))) in *.
  assert (C := cut_near t). assert (D := cut_below t). split; [| lra].
  replace (cut t - (c + total l)) with ((cut t - t) + (t - (c + total l))) by ring.
  eapply Rle_trans. apply Rabs_triang. unfold quantum in E. lra.
Qed.

(** A chain: each step's result is the next one's accumulator. *)
Fixpoint chain W c (steps : list (list R)) : R :=
  match steps with [] => c | l :: steps => chain W (step (quantum W) c l) steps end.

Fixpoint all (f : list R -> R) (steps : list (list R)) : R :=
  match steps with [] => 0 | l :: steps => f l + all f steps end.

(** wgmma-order-free: K steps of at most n products, from c. The order of the channels, and which
    step they are in, does not enter. *)
Theorem any_chain :
  forall W n steps c, 0 < W -> (forall l, In l steps -> INR (length l) <= n) ->
  let K := INR (length steps) in
  Rabs (chain W c steps - (c + all total steps)) <=
    / 8192 * K * ((n + 1) * W + (Rabs c + all mass steps)).
Proof.
  intros W n steps c HW Hn.
  assert (M : forall steps, 0 <= all mass steps).
  { assert (M1 : forall l, 0 <= mass l).
    { induction l as [| x l IH]; simpl; [lra |]. assert (P := Rabs_pos x). lra. }
    induction steps0 as [| l s IH]; simpl; [lra |]. assert (P := M1 l). lra. }
  revert c. induction steps as [| l steps IH]; intros c K.
  - unfold K. simpl. replace (c + 0) with c by ring. replace (c - c) with 0 by ring. rewrite Rabs_R0. lra.
  - unfold K in *. clear K. change (length (l :: steps)) with (S (length steps)). rewrite S_INR.
    destruct (one_step W c l HW) as (E & B).
    assert (L : INR (length l) <= n) by (apply Hn; left; reflexivity).
    assert (IH' := IH (fun l' I => Hn l' (or_intror I)) (step (quantum W) c l)). simpl in IH'.
    simpl. set (s := step (quantum W) c l) in *. set (k := INR (length steps)) in *.
    assert (Hk : 0 <= k) by apply pos_INR. assert (Ms := M steps).
    assert (Hl : 0 <= INR (length l)) by apply pos_INR. assert (Pc := Rabs_pos c). assert (Ps := Rabs_pos s).
    assert (X : / 8192 * k * ((n + 1) * W + (Rabs s + all mass steps)) <=
                / 8192 * k * ((n + 1) * W + (Rabs c + (mass l + all mass steps)))).
    { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | lra]. }
    assert (Y : (INR (length l) + 1) * W <= (n + 1) * W) by (apply Rmult_le_compat_r; lra).
    replace (chain W s steps - (c + (total l + all total steps)))
      with ((chain W s steps - (s + all total steps)) + (s - (c + total l))) by ring.
    eapply Rle_trans. apply Rabs_triang.
    replace (/ 8192 * (k + 1) * ((n + 1) * W + (Rabs c + (mass l + all mass steps))))
      with (/ 8192 * k * ((n + 1) * W + (Rabs c + (mass l + all mass steps))) +
            / 8192 * ((n + 1) * W + (Rabs c + (mass l + all mass steps)))) by ring.
    lra.
Qed.
