(** The softmax of a row as a kernel makes it: exponentials, their sum, shares, codes of shares.

    Sections 1 and 2; contracts of whole rows, whose two passes read the same exponentials. e_j are
    binary32 numbers, the largest of them exp(0) = 1; l is their sum in any order. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core Relative.
From dmverify Require Import Binary32 Sums Stores Casts Known Ledger Probability Rounding Casting Kernel.
Open Scope R_scope.

(** The exponentials, their sum and the backward's P. *)
Definition softmax n (e : nat -> R) l (P : nat -> R) :=
  (exists j, (j < n)%nat /\ e j = 1) /\ sum_of n e l /\
  forall j, (j < n)%nat -> binary32 (e j) /\ 0 <= e j /\ P j = rnd (e j / l).

(** The forward's codes: [head j] is the largest key of j's group, which makes its scale; a scale is
    a normal number. *)
Definition coded n (e : nat -> R) (head : nat -> nat) (w : nat -> R) :=
  forall j, (j < n)%nat ->
  (head j < n)%nat /\ e j <= e (head j) /\ bpow radix2 (emin + prec - 1) <= e (head j) / 448 /\
  w j = rnd (e (head j) / 448) * code (rnd (e j / rnd (e (head j) / 448))).

(** What the backward's share may be off the exact one; s is the relative error of l. *)
Definition share_error s := compound (inverse s) (path 1).

(** What a code may be off its share. *)
Definition coded_error (P : nat -> R) (head : nat -> nat) s j :=
  (Rmin (Rmax (P j / 17) (P (head j) * (tiny / 448))) (P j) + P j * path 3 + eta * (1 + path 3))
  * (1 + inverse (share_error s)).

Lemma path_1 : path 1 = u.
Proof. unfold path. ring. Qed.

Lemma inverse_below : forall a b, 0 <= a <= b -> b < 1 -> inverse a <= inverse b.
Proof.
  intros a b H B. unfold inverse. assert (I : / (1 - a) <= / (1 - b)) by (apply Rinv_le; lra).
  assert (0 < / (1 - a)) by (apply Rinv_0_lt_compat; lra). unfold Rdiv. apply Rmult_le_compat; lra.
Qed.

Lemma inverse_positive : forall a, 0 <= a < 1 -> 0 <= inverse a.
Proof. intros a H. unfold inverse. apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]. Qed.

Lemma share_error_small : forall s, 0 <= s <= / 4 -> path 1 <= share_error s < / 2.
Proof.
  intros s H. assert (U := u_small). unfold share_error, compound. rewrite path_1.
  assert (I : inverse s <= / 3).
  { apply Rle_trans with (inverse (/ 4)); [apply inverse_below; lra | unfold inverse; lra]. }
  assert (I0 : 0 <= inverse s) by (apply inverse_positive; lra).
  assert (0 <= inverse s * u) by (apply Rmult_le_pos; lra).
  assert (inverse s * u <= / 3 * u) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Section Row.
  Variables (n : nat) (e : nat -> R) (l : R) (P : nat -> R) (s : R).
  Hypothesis soft : softmax n e l P.
  Hypothesis sum_near : Rabs (l - Sum n e) <= s * Sum n e.
  Hypothesis s_small : 0 <= s <= / 4.

  Lemma e_facts : forall j, (j < n)%nat -> binary32 (e j) /\ 0 <= e j.
  Proof. intros j J. destruct soft as (_ & _ & H). destruct (H j J) as (A & B & _). split; assumption. Qed.

  Lemma l_1 : 1 <= l.
  Proof. destruct soft as ((j & J & <-) & S & _). apply (sum_at_least n e l j S e_facts J). Qed.

  Lemma whole_1 : 1 <= Sum n e.
  Proof.
    destruct soft as ((j & J & E) & _ & _). rewrite <- E.
    apply Sum_at_least; [| exact J]. intros i I. apply e_facts, I.
  Qed.

  (** The backward's share relative to l itself, and to the exact sum. *)
  Lemma share_of_l : forall j, (j < n)%nat -> Rabs (P j - e j / l) <= path 1 * (e j / l) + eta.
  Proof.
    intros j J. destruct soft as (_ & _ & H). destruct (H j J) as (_ & E & ->). rewrite path_1.
    assert (R := rnd_error (e j / l)). rewrite (Rabs_right (e j / l)) in R; [exact R |].
    assert (L := l_1). apply Rle_ge. unfold Rdiv. apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; lra].
  Qed.

  Lemma share_parts : forall j, (j < n)%nat -> exists rho d, Rabs rho <= path 1 /\ Rabs d <= eta /\
    P j = e j / l * (1 + rho) + d.
  Proof.
    intros j J. destruct soft as (_ & _ & H). destruct (H j J) as (_ & _ & ->). rewrite path_1.
    destruct (error_N_FLT radix2 emin prec (eq_refl _) (fun z => negb (Z.even z)) (e j / l)) as (r & d & Hr & Hd & _ & E).
    exists r, d. split; [exact Hr | split; [exact Hd | exact E]].
  Qed.

  Definition sigma := l / Sum n e - 1.

  Lemma sigma_small : Rabs sigma <= s /\ l = Sum n e * (1 + sigma).
  Proof.
    assert (W := whole_1). unfold sigma. split; [| field; lra].
    replace (l / Sum n e - 1) with ((l - Sum n e) / Sum n e) by (field; lra).
    unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ Sum n e)) by (left; apply Rinv_0_lt_compat; lra).
    apply Rmult_le_reg_r with (Sum n e); [lra |]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact sum_near.
  Qed.

  Lemma share_of_whole : forall j, (j < n)%nat -> Rabs (P j - e j / Sum n e) <= share_error s * (e j / Sum n e) + eta.
  Proof.
    intros j J. destruct (share_parts j J) as (rho & d & Hr & Hd & ->). destruct sigma_small as (S & L).
    assert (W := whole_1). assert (E := proj2 (e_facts j J)). set (p := e j / Sum n e).
    assert (P0 : 0 <= p) by (unfold p, Rdiv; apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; lra]).
    assert (S1 : 0 < 1 + sigma) by (apply Rabs_le_inv in S; lra).
    assert (I := inverse_of_sum sigma s ltac:(lra) S). set (t := / (1 + sigma) - 1) in *.
    replace (e j / l * (1 + rho) + d - p) with (p * ((1 + t) * (1 + rho) - 1) + d).
    2: { unfold p, t. rewrite L. field. lra. }
    eapply Rle_trans. apply Rabs_triang. apply Rplus_le_compat; [| exact Hd].
    rewrite Rabs_mult, (Rabs_right p), Rmult_comm by lra. apply Rmult_le_compat_r; [exact P0 |].
    apply composed; assumption.
  Qed.

  (** |1 - B|. *)
  Lemma unit_row : Rabs (1 - Sum n P) <= share_error s + INR n * eta.
  Proof.
    assert (W := whole_1). destruct sigma_small as (S & L).
    assert (S1 : 0 < 1 + sigma) by (apply Rabs_le_inv in S; lra).
    assert (T : Sum n (fun j => e j / Sum n e) = 1).
    { rewrite (Sum_ext n _ (fun j => / Sum n e * e j)) by (intros; unfold Rdiv; ring). rewrite Sum_scale. field. lra. }
    replace (1 - Sum n P) with (- (Sum n P - 1)) by ring. rewrite Rabs_Ropp, <- T, <- Sum_minus.
    eapply Rle_trans. apply Sum_abs. eapply Rle_trans. apply Sum_le. exact share_of_whole.
    rewrite Sum_plus, Sum_scale, T, Sum_constant. lra.
  Qed.

  (** A share by the backward's number, whatever it is divided by. *)
  Lemma share_above : forall j, (j < n)%nat ->
    e j / l <= (P j + eta) * (1 + inverse (share_error s)) /\
    e j / Sum n e <= (P j + eta) * (1 + inverse (share_error s)).
  Proof.
    intros j J. assert (E := proj2 (e_facts j J)). assert (U := u_small). assert (P0 := eta_positive).
    assert (Q := share_error_small s s_small). rewrite path_1 in Q. assert (L := l_1). assert (W := whole_1).
    assert (Z1 : 0 <= e j / l) by (unfold Rdiv; apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; lra]).
    assert (Z2 : 0 <= e j / Sum n e) by (unfold Rdiv; apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; lra]).
    assert (A := share_of_l j J). assert (B := share_of_whole j J). rewrite path_1 in A.
    split.
    - destruct (share_from_backward (e j / l) (P j) u eta Z1 ltac:(lra) ltac:(lra) A) as (K & _).
      eapply Rle_trans. exact K. assert (I : inverse u <= inverse (share_error s)) by (apply inverse_below; lra).
      apply Rmult_le_compat_l; [| lra].
      assert (0 <= u * (e j / l)) by (apply Rmult_le_pos; lra). apply Rabs_le_inv in A.
      assert (u * (e j / l) <= 1 * (e j / l)) by (apply Rmult_le_compat_r; lra). lra.
    - apply (share_from_backward (e j / Sum n e) (P j) (share_error s) eta Z2 ltac:(lra) ltac:(lra) B).
  Qed.

  Lemma P_positive : forall j, (j < n)%nat -> 0 <= P j.
  Proof.
    intros j J. destruct soft as (_ & _ & H). destruct (H j J) as (_ & E & ->). rewrite <- rnd_0. apply rnd_le.
    assert (L := l_1). unfold Rdiv. apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; lra].
  Qed.

  Variables (head : nat -> nat) (w : nat -> R).
  Hypothesis codes_of_e : coded n e head w.

  Lemma scale_positive : forall j, (j < n)%nat -> 0 < rnd (e (head j) / 448).
  Proof.
    intros j J. destruct (codes_of_e j J) as (_ & _ & N & _). assert (B := bpow_gt_0 radix2 (emin + prec - 1)).
    destruct (rounding_error (e (head j) / 448)) as (E & _); [rewrite Rabs_right; lra |].
    rewrite (Rabs_right (e (head j) / 448)) in E by lra. assert (U := u_small). apply Rabs_le_inv in E.
    assert (0 < e (head j) / 448 * (1 - u)) by (apply Rmult_lt_0_compat; lra). lra.
  Qed.

  Lemma code_in_range : forall j, (j < n)%nat -> 0 <= rnd (e j / rnd (e (head j) / 448)) <= 464.
  Proof.
    intros j J. destruct (codes_of_e j J) as (_ & M & N & _). assert (E := proj2 (e_facts j J)). split.
    - rewrite <- rnd_0. apply rnd_le. unfold Rdiv at 1. apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat, scale_positive, J].
    - assert (Q := quotient_range (e (head j)) (e j) N (conj E M)). lra.
  Qed.

  Lemma w_positive : forall j, (j < n)%nat -> 0 <= w j.
  Proof.
    intros j J. destruct (codes_of_e j J) as (_ & _ & _ & ->). assert (S := scale_positive j J).
    apply Rmult_le_pos; [lra | apply code_not_negative, code_in_range, J].
  Qed.

  (** A code against its exponential, in shares of any D for which shares are known by P. *)
  Theorem code_near :
    forall D j, 0 < D -> (j < n)%nat ->
    (forall i, (i < n)%nat -> e i / D <= (P i + eta) * (1 + inverse (share_error s))) ->
    Rabs (w j / D - e j / D) <= coded_error P head s j.
  Proof.
    intros D j HD J H. destruct (codes_of_e j J) as (I & M & N & ->).
    set (a := rnd (e (head j) / 448)). set (x := e j / D). set (g := 1 + inverse (share_error s)).
    assert (S : 0 < a) by apply (scale_positive j J). assert (R := code_in_range j J). fold a in R.
    assert (E := proj2 (e_facts j J)). assert (U := u_small). assert (T := tiny_positive). assert (E0 := eta_positive).
    assert (ID : 0 < / D) by (apply Rinv_0_lt_compat; exact HD).
    assert (X0 : 0 <= x) by (unfold x, Rdiv; apply Rmult_le_pos; lra).
    assert (SD : 0 < a / D) by (unfold Rdiv; apply Rmult_lt_0_compat; lra).
    assert (Q : x / (a / D) = e j / a) by (unfold x; field; lra).
    assert (C := cast_of_number x (a / D) SD). rewrite Q in C. specialize (C ltac:(rewrite Rabs_right; lra)). cbv zeta in C.
    replace (a * code (rnd (e j / a)) / D - x) with (a / D * code (rnd (e j / a)) - x) by (field; lra).
    set (q := code (rnd (e j / a))) in *. rewrite (Rabs_right x) in C by lra.
    assert (G0 : 1 <= g).
    { unfold g. assert (Z := share_error_small s s_small). rewrite path_1 in Z. assert (0 <= inverse (share_error s)) by (apply inverse_positive; lra). lra. }
    assert (Xg : x <= (P j + eta) * g) by apply (H j J).
    assert (Hg : e (head j) / D <= (P (head j) + eta) * g) by apply (H (head j) I).
    assert (A1 : a <= e (head j) / 448 * (1 + u)).
    { destruct (rounding_error (e (head j) / 448)) as (F & _); [assert (B := bpow_gt_0 radix2 (emin + prec - 1)); rewrite Rabs_right; lra |].
      assert (B := bpow_gt_0 radix2 (emin + prec - 1)). rewrite (Rabs_right (e (head j) / 448)) in F by lra. fold a in F. apply Rabs_le_inv in F. lra. }
    assert (P0 := P_positive j J). assert (Ph := P_positive (head j) I).
    set (t := tiny / 448) in *. assert (T0 : 0 < t <= / 1000) by (unfold t, tiny; lra).
    assert (A2 : a / D * tiny <= (P (head j) + eta) * g * (t * (1 + u))).
    { apply Rle_trans with (e (head j) / D * (t * (1 + u))).
      - replace (e (head j) / D * (t * (1 + u))) with (e (head j) / 448 * (1 + u) * (/ D * tiny)) by (unfold t; field; lra).
        replace (a / D * tiny) with (a * (/ D * tiny)) by (field; lra). apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | exact A1].
      - apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | exact Hg]. }
    assert (Pt : 0 <= P (head j) * t) by (apply Rmult_le_pos; lra).
    unfold coded_error. fold t g. set (m := Rmax (P j / 17) (P (head j) * t)).
    assert (M1 := Rmax_l (P j / 17) (P (head j) * t)). assert (M2 := Rmax_r (P j / 17) (P (head j) * t)). fold m in M1, M2.
    assert (P3 : 3 * u <= path 3).
    { unfold path. simpl. assert (0 <= u * u) by (apply Rmult_le_pos; lra). assert (0 <= u * (u * u)) by (apply Rmult_le_pos; lra). lra. }
    assert (L1 : Rmax (x / 17) (a / D * tiny) + u * x <= (m * (1 + u) + eta * / 2 + u * (P j + eta)) * g).
    { assert (u * x <= u * ((P j + eta) * g)) by (apply Rmult_le_compat_l; lra).
      assert (Rmax (x / 17) (a / D * tiny) <= (m * (1 + u) + eta * / 2) * g).
      { assert (um : 0 <= u * m) by (apply Rmult_le_pos; lra). apply Rmax_lub.
        - apply Rle_trans with ((P j + eta) * g / 17); [lra |].
          replace ((P j + eta) * g / 17) with ((P j / 17 + eta / 17) * g) by (unfold Rdiv; ring). apply Rmult_le_compat_r; lra.
        - eapply Rle_trans. exact A2.
          replace ((P (head j) + eta) * g * (t * (1 + u))) with ((P (head j) * t * (1 + u) + eta * (t * (1 + u))) * g) by ring.
          apply Rmult_le_compat_r; [lra |].
          assert (P (head j) * t * (1 + u) <= m * (1 + u)) by (apply Rmult_le_compat_r; lra).
          assert (t * (1 + u) <= / 1000 * 2) by (apply Rmult_le_compat; lra).
          assert (eta * (t * (1 + u)) <= eta * / 2) by (apply Rmult_le_compat_l; lra). lra. }
      lra. }
    assert (L2 : Rabs (a / D * q - x) <= Rmax (x / 17) (a / D * tiny) + u * x).
    { eapply Rle_trans. exact C. eapply Rle_trans. apply Rmin_l. apply Rplus_le_compat_r. apply Rmin_l. }
    assert (L3 : Rabs (a / D * q - x) <= x) by (eapply Rle_trans; [exact C | apply Rmin_r]).
    assert (uP : 0 <= u * P j) by (apply Rmult_le_pos; lra). assert (PP3 : 3 * u * P j <= P j * path 3) by (rewrite (Rmult_comm (P j)); apply Rmult_le_compat_r; lra).
    assert (E3 : 0 <= eta * path 3) by (apply Rmult_le_pos; lra). assert (uE : u * eta <= / 4 * eta) by (apply Rmult_le_compat_r; lra).
    unfold Rmin. destruct (Rle_dec m (P j)) as [K | K].
    - eapply Rle_trans. exact L2. eapply Rle_trans. exact L1. apply Rmult_le_compat_r; [lra |].
      assert (u * m <= u * P j) by (apply Rmult_le_compat_l; lra). lra.
    - eapply Rle_trans. exact L3. eapply Rle_trans. exact Xg. apply Rmult_le_compat_r; lra.
  Qed.
End Row.
