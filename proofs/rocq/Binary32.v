(** binary32 with gradual underflow, rounded to nearest even: what one operation may be off.

    Section 0 of the derivation. Premise of every theorem that uses it: nothing overflows, so that
    the result of an operation is the rounding of its exact result (FLT, no upper end).

    - [u] = 2^-24, half the distance of 1 to the next number, relative;
    - [eta] = 2^-150, half the smallest positive number. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core Relative Plus_error.
Open Scope R_scope.

Definition prec := 24%Z.
Definition emin := (-149)%Z.
Definition fexp := FLT_exp emin prec.
Definition rnd := round radix2 fexp ZnearestE.
Definition binary32 (x : R) := generic_format radix2 fexp x.
Definition u := / 2 * bpow radix2 (- prec + 1).
Definition eta := / 2 * bpow radix2 emin.

Global Instance prec_positive : Prec_gt_0 prec.
Proof. unfold Prec_gt_0, prec; lia. Qed.

Global Instance fexp_valid : Valid_exp fexp.
Proof. apply FLT_exp_valid. exact prec_positive. Qed.

Lemma u_positive : 0 < u.
Proof. unfold u. assert (H := bpow_gt_0 radix2 (- prec + 1)). lra. Qed.

Lemma eta_positive : 0 < eta.
Proof. unfold eta. assert (H := bpow_gt_0 radix2 emin). lra. Qed.

Lemma u_below_1 : u < 1.
Proof.
  unfold u, prec. simpl. lra.
Qed.

(** A result is a number of the format. *)
Lemma rnd_format : forall x, binary32 (rnd x).
Proof. intro x. apply generic_format_round; [apply fexp_valid | apply valid_rnd_N]. Qed.

Lemma rnd_0 : rnd 0 = 0.
Proof. unfold rnd. apply round_0. apply valid_rnd_N. Qed.

Lemma format_0 : binary32 0.
Proof. apply generic_format_0. Qed.

(** rn-error: one rounding. *)
Theorem rnd_error : forall x, Rabs (rnd x - x) <= u * Rabs x + eta.
Proof.
  intro x.
  destruct (error_N_FLT radix2 emin prec (eq_refl _) (fun z => negb (Z.even z)) x)
    as (e & d & He & Hd & _ & Hr).
  unfold rnd, fexp. change ZnearestE with (Znearest (fun z => negb (Z.even z))).
  rewrite Hr.
  replace (x * (1 + e) + d - x) with (e * x + d) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult.
  apply Rplus_le_compat; [| exact Hd].
  apply Rmult_le_compat_r; [apply Rabs_pos | exact He].
Qed.

(** add-no-underflow: a sum of two numbers of the format has no absolute term. *)
Theorem rnd_plus_error :
  forall x y, binary32 x -> binary32 y -> Rabs (rnd (x + y) - (x + y)) <= u * Rabs (x + y).
Proof.
  intros x y Hx Hy.
  destruct (FLT_plus_error_N_ex radix2 emin prec (fun z => negb (Z.even z)) x y Hx Hy)
    as (e & He & Hr).
  unfold rnd, fexp. change ZnearestE with (Znearest (fun z => negb (Z.even z))).
  rewrite Hr.
  replace ((x + y) * (1 + e) - (x + y)) with (e * (x + y)) by ring.
  rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos |].
  eapply Rle_trans. exact He. unfold u_ro, u.
  assert (P := bpow_gt_0 radix2 (- prec + 1)).
  assert (Q : 0 < / 2 * bpow radix2 (- prec + 1)) by lra.
  apply Rle_trans with (/ 2 * bpow radix2 (- prec + 1) / 1); [| lra].
  unfold Rdiv. apply Rmult_le_compat_l; [lra |].
  apply Rinv_le; lra.
Qed.

(** The rounding is nearer than any number of the format: adding x moves c by at most 2 |x|. *)
Theorem rnd_candidate : forall c x, binary32 c -> Rabs (rnd (c + x) - (c + x)) <= Rabs x.
Proof.
  intros c x Hc. unfold rnd.
  destruct (round_N_pt radix2 fexp (fun z => negb (Z.even z)) (c + x)) as [_ H].
  specialize (H c Hc).
  replace (c - (c + x)) with (- x) in H by ring. rewrite Rabs_Ropp in H. exact H.
Qed.

(** The sharper unit u / (1 + u): with it n products and n - 1 additions are off by n u, not 2 n. *)
Definition v := u / (1 + u).

Lemma v_positive : 0 < v.
Proof. unfold v. assert (U := u_positive). apply Rdiv_lt_0_compat; lra. Qed.

Lemma v_below_1 : v < 1.
Proof.
  unfold v. assert (U := u_positive). apply Rmult_lt_reg_r with (1 + u); [lra |].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

Lemma v_below_u : v <= u.
Proof.
  unfold v. assert (U := u_positive). apply Rmult_le_reg_r with (1 + u); [lra |].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l; [| lra].
  assert (0 <= u * u) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma v_squared : v + v * v <= u.
Proof.
  unfold v. assert (U := u_positive). apply Rmult_le_reg_r with ((1 + u) * (1 + u)).
  - apply Rmult_lt_0_compat; lra.
  - replace ((u / (1 + u) + u / (1 + u) * (u / (1 + u))) * ((1 + u) * (1 + u)))
      with (u * (1 + u) + u * u) by (field; lra).
    assert (0 <= u * u) by (apply Rmult_le_pos; lra).
    assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra).
    replace (u * ((1 + u) * (1 + u))) with (u + 2 * (u * u) + u * (u * u)) by ring. lra.
Qed.

(** One rounding is relative to a number within eta of its argument: underflow moves the argument,
    and then nothing else is rounded. *)
Lemma rnd_moved :
  forall x, exists d, Rabs d <= eta /\ Rabs (rnd x - (x + d)) <= v * Rabs (x + d) /\
  (d = 0 \/ rnd x = x + d).
Proof.
  intro x.
  destruct (relative_error_N_FLT'_ex radix2 emin prec (eq_refl _) (fun z => negb (Z.even z)) x)
    as (e & d & He & Hd & Hed & Hr).
  exists d. split; [exact Hd |].
  unfold rnd, fexp. change ZnearestE with (Znearest (fun z => negb (Z.even z))). rewrite Hr.
  assert (V := v_positive).
  destruct (Rmult_integral _ _ Hed) as [Z | Z]; rewrite Z.
  - split; [| right; ring].
    replace (x * (1 + 0) + d - (x + d)) with 0 by ring. rewrite Rabs_R0.
    apply Rmult_le_pos; [lra | apply Rabs_pos].
  - split; [| left; reflexivity].
    replace (x * (1 + e) + 0 - (x + 0)) with (e * x) by ring. rewrite Rplus_0_r, Rabs_mult.
    apply Rmult_le_compat_r; [apply Rabs_pos | exact He].
Qed.

Lemma rnd_plus_relative :
  forall x y, binary32 x -> binary32 y -> Rabs (rnd (x + y) - (x + y)) <= v * Rabs (x + y).
Proof.
  intros x y Hx Hy.
  destruct (FLT_plus_error_N_ex radix2 emin prec (fun z => negb (Z.even z)) x y Hx Hy)
    as (e & He & Hr).
  unfold rnd, fexp. change ZnearestE with (Znearest (fun z => negb (Z.even z))). rewrite Hr.
  replace ((x + y) * (1 + e) - (x + y)) with (e * (x + y)) by ring.
  rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos | exact He].
Qed.

(** How relative errors compose: k roundings, the other side of an error, two of them. *)
Definition path k := (1 + u) ^ k - 1.
Definition inverse r := r / (1 - r).
Definition compound a b := a + b + a * b.
