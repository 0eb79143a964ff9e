(** What a kernel's own P and dP may move delta and the size of dS by: the bound of column sums.

    Section 1, over all rows of a key head. [p], [d] are P and dP of exact attention on the operands,
    [P'], [d'] the kernel's, delta' its delta. *)
Require Import Reals Lra Lia.
From dmverify Require Import Binary32 Ledger.
Open Scope R_scope.

Section One_row.
  Variable n : nat.
  Variables p d P' d' : nat -> R.
  Variables delta' rho b e g : R.
  Definition delta_exact := Sum n (fun j => p j * d j).
  Definition mass_exact := Sum n (fun j => p j * Rabs (d j)).
  Definition spread_exact := Sum n (fun j => p j * Rabs (d j - delta_exact)).
  Definition mass_kernel := (1 + rho) * (mass_exact + e).

  Hypothesis shares : forall j, (j < n)%nat -> 0 <= p j /\ 0 <= P' j.
  Hypothesis whole : Sum n p = 1.
  Hypothesis near : forall j, (j < n)%nat -> Rabs (P' j - p j) <= rho * p j.
  Hypothesis sum_near : Rabs (Sum n P' - 1) <= b.
  Hypothesis dots_near : forall j, (j < n)%nat -> Rabs (d' j - d j) <= e.
  Hypothesis own_delta : Rabs (delta' - Sum n (fun j => P' j * d' j)) <= g * Sum n (fun j => P' j * Rabs (d' j)).
  Hypothesis signs : 0 <= rho /\ 0 <= e /\ 0 <= g.

  Lemma weight : Sum n P' <= 1 + b.
  Proof.
    assert (H := Rle_abs (Sum n P' - 1)). lra.
  Qed.

  Lemma kernel_mass : Sum n (fun j => P' j * Rabs (d' j)) <= mass_kernel.
  Proof.
    unfold mass_kernel, mass_exact.
    replace (Sum n (fun j => p j * Rabs (d j)) + e) with (Sum n (fun j => p j * Rabs (d j)) + e * Sum n p) by (rewrite whole; ring).
    rewrite <- (Sum_scale n e p), <- Sum_plus, <- Sum_scale. apply Sum_le. intros j J. cbv beta.
    destruct (shares j J) as (A & B). assert (C := near j J). assert (D := dots_near j J).
    assert (X : P' j <= (1 + rho) * p j) by (assert (T := Rle_abs (P' j - p j)); lra).
    assert (Y : Rabs (d' j) <= Rabs (d j) + e).
    { replace (d' j) with (d j + (d' j - d j)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
    apply Rle_trans with ((1 + rho) * p j * (Rabs (d j) + e)); [| apply Req_le; ring].
    apply Rmult_le_compat; [exact B | apply Rabs_pos | exact X | exact Y].
  Qed.

  (** |delta' - delta|. *)
  Theorem delta_reach :
    Rabs (delta' - delta_exact) <=
      rho * spread_exact + Rabs delta_exact * b + (1 + b) * e + g * mass_kernel.
  Proof.
    destruct signs as (R0 & E0 & G0).
    assert (ID : delta' - delta_exact =
      (delta' - Sum n (fun j => P' j * d' j)) + Sum n (fun j => P' j * (d' j - d j))
      + Sum n (fun j => (P' j - p j) * (d j - delta_exact)) + delta_exact * (Sum n P' - 1)).
    { rewrite (Sum_ext n (fun j => (P' j - p j) * (d j - delta_exact))
        (fun j => P' j * d j - delta_exact * P' j - (p j * d j - delta_exact * p j))) by (intros; ring).
      rewrite (Sum_ext n (fun j => P' j * (d' j - d j)) (fun j => P' j * d' j - P' j * d j)) by (intros; ring).
      rewrite !Sum_minus, !Sum_scale, whole. fold delta_exact. ring. }
    assert (T1 : Rabs (Sum n (fun j => P' j * (d' j - d j))) <= (1 + b) * e).
    { eapply Rle_trans. apply Sum_abs. eapply Rle_trans. apply Sum_le with (g := fun j => e * P' j).
      - intros j J. destruct (shares j J) as (A & B). rewrite Rabs_mult, (Rabs_right (P' j)) by lra.
        rewrite Rmult_comm. apply Rmult_le_compat_r; [exact B | apply dots_near; exact J].
      - rewrite Sum_scale. rewrite Rmult_comm. apply Rmult_le_compat_r; [exact E0 | apply weight]. }
    assert (T2 : Rabs (Sum n (fun j => (P' j - p j) * (d j - delta_exact))) <= rho * spread_exact).
    { unfold spread_exact. rewrite <- Sum_scale. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J.
      rewrite Rabs_mult, <- Rmult_assoc. apply Rmult_le_compat_r; [apply Rabs_pos | apply near; exact J]. }
    assert (T3 : Rabs (delta_exact * (Sum n P' - 1)) <= Rabs delta_exact * b).
    { rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos | exact sum_near]. }
    assert (T4 : g * Sum n (fun j => P' j * Rabs (d' j)) <= g * mass_kernel) by (apply Rmult_le_compat_l; [exact G0 | apply kernel_mass]).
    rewrite ID. eapply Rle_trans. apply Rabs_triang. eapply Rle_trans. apply Rplus_le_compat_r. apply Rabs_triang.
    eapply Rle_trans. apply Rplus_le_compat_r. apply Rplus_le_compat_r. apply Rabs_triang. lra.
  Qed.

  (** The kernel's sum of P |dP - delta|, given that reach. *)
  Theorem kernel_spread :
    forall D, Rabs (delta' - delta_exact) <= D ->
    Sum n (fun j => P' j * Rabs (d' j - delta')) <= (1 + rho) * spread_exact + (1 + b) * (e + D).
  Proof.
    intros D HD. destruct signs as (R0 & E0 & G0).
    eapply Rle_trans. apply Sum_le with (g := fun j => (1 + rho) * (p j * Rabs (d j - delta_exact)) + (e + D) * P' j).
    - intros j J. cbv beta. destruct (shares j J) as (A & B). assert (C := near j J). assert (E := dots_near j J).
      assert (X : P' j <= (1 + rho) * p j) by (assert (T := Rle_abs (P' j - p j)); lra).
      assert (Y : Rabs (d' j - delta') <= Rabs (d j - delta_exact) + (e + D)).
      { replace (d' j - delta') with ((d j - delta_exact) + (d' j - d j) + - (delta' - delta_exact)) by ring.
        eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp.
        assert (Z := Rabs_triang (d j - delta_exact) (d' j - d j)). lra. }
      assert (Z := Rabs_pos (d j - delta_exact)).
      apply Rle_trans with (P' j * (Rabs (d j - delta_exact) + (e + D))); [apply Rmult_le_compat_l; assumption |].
      assert (P' j * Rabs (d j - delta_exact) <= (1 + rho) * p j * Rabs (d j - delta_exact)) by (apply Rmult_le_compat_r; assumption). lra.
    - rewrite Sum_plus, !Sum_scale. fold spread_exact.
      assert (0 <= D) by (eapply Rle_trans; [apply Rabs_pos | exact HD]).
      assert ((e + D) * Sum n P' <= (e + D) * (1 + b)) by (apply Rmult_le_compat_l; [lra | apply weight]). lra.
  Qed.
End One_row.
