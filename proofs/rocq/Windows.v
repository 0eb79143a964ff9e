(** The contract with windows: its normaliser, its sum over windows, its scales, its quotient.
    Sections 2, 3 and 5.

    e_j are the windows' exponentials relative to the saved reference M, r the reciprocal of their
    sum as it is multiplied. *)
Require Import Reals Lra Lia List.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Inner Ledger Softmax.
Import ListNotations.
Open Scope R_scope.

(** M is 8 above the largest b rounded up, and b is within a half of the window's maximum less 8
    (window-argument): the largest logit is at most 3/2 below M and 1/2 above. *)
Theorem saved_reference :
  forall m b, Rabs (m - b - 8) <= / 2 -> let M := IZR (Zceil b) + 8 in - (3 / 2) <= m - M <= / 2.
Proof.
  intros m b H M. apply Rabs_le_inv in H. assert (U := Zceil_ub b).
  assert (L : IZR (Zceil b) <= b + 1).
  { assert (F := Zceil_ub b). destruct (Req_dec (IZR (Zfloor b)) b) as [E | N].
    - rewrite <- E at 1. rewrite Zceil_IZR. lra.
    - rewrite (Zceil_floor_neq b N), plus_IZR. assert (G := Zfloor_lb b). lra. }
  unfold M. lra.
Qed.

Lemma power_up : forall x y, x <= y -> Rpower 2 x <= Rpower 2 y.
Proof. intros x y H. destruct (Req_dec x y) as [-> | N]; [lra | left; apply Rpower_lt; lra]. Qed.

Lemma power_bounds : / 3 <= Rpower 2 (- (3 / 2)) /\ Rpower 2 (/ 2) <= 3 / 2.
Proof.
  assert (S : forall x, Rpower 2 x * Rpower 2 x = Rpower 2 (x + x)) by (intro x; symmetry; apply Rpower_plus).
  assert (P : forall x, 0 < Rpower 2 x) by (intro x; unfold Rpower; apply exp_pos).
  split.
  - assert (Q := S (- (3 / 2))). replace (- (3 / 2) + - (3 / 2)) with (- (3)) in Q by field.
    assert (C : Rpower 2 3 = 8).
    { replace 3 with (INR 3) by (simpl; ring). rewrite Rpower_pow by lra. simpl. ring. }
    rewrite (Rpower_Ropp 2 3), C in Q.
    assert (T := P (- (3 / 2))). destruct (Rle_or_lt (/ 3) (Rpower 2 (- (3 / 2)))) as [L | L]; [exact L | exfalso].
    assert (Rpower 2 (- (3 / 2)) * Rpower 2 (- (3 / 2)) <= / 3 * / 3) by (apply Rmult_le_compat; lra). lra.
  - assert (Q := S (/ 2)). replace (/ 2 + / 2) with 1 in Q by field. rewrite Rpower_1 in Q by lra.
    assert (T := P (/ 2)). destruct (Rle_or_lt (Rpower 2 (/ 2)) (3 / 2)) as [L | L]; [exact L | exfalso].
    assert (3 / 2 * (3 / 2) <= Rpower 2 (/ 2) * Rpower 2 (/ 2)) by (apply Rmult_le_compat; lra). lra.
Qed.

(** l is above 1/4 and at most 2 n: the largest of n exponentials is 2^-3/2 at least, each at most
    2^1/2, and an error of a tenth of the sum is far more than what roundings make. *)
Theorem normaliser_range :
  forall n x M l, (exists j, (j < n)%nat /\ - (3 / 2) <= x j - M) -> (forall j, (j < n)%nat -> x j - M <= / 2) ->
  Rabs (l - Sum n (fun j => Rpower 2 (x j - M))) <= / 10 * Sum n (fun j => Rpower 2 (x j - M)) ->
  / 4 < l <= 2 * INR n.
Proof.
  intros n x M l (i & I & L) H E. destruct power_bounds as (B & T).
  assert (P : forall y, 0 < Rpower 2 y) by (intro y; unfold Rpower; apply exp_pos).
  assert (U : Sum n (fun j => Rpower 2 (x j - M)) <= 3 / 2 * INR n).
  { clear I L E. induction n as [| n IH]; [simpl; lra |]. rewrite S_INR. simpl.
    assert (G := IH (fun j J => H j (Nat.lt_lt_succ_r _ _ J))). assert (K := power_up _ _ (H n (Nat.lt_succ_diag_r n))). lra. }
  assert (D : / 3 <= Sum n (fun j => Rpower 2 (x j - M))).
  { clear U E H. induction n as [| n IH]; [lia |]. simpl. assert (Z : 0 <= Sum n (fun j => Rpower 2 (x j - M))).
    { clear. induction n as [| n IH]; simpl; [lra |]. assert (0 < Rpower 2 (x n - M)) by (unfold Rpower; apply exp_pos). lra. }
    destruct (Nat.eq_dec i n) as [-> | N].
    - assert (K := power_up _ _ L). lra.
    - assert (G := IH ltac:(lia)). assert (Q := P (x n - M)). lra. }
  apply Rabs_le_inv in E. lra.
Qed.

(** A result times a scale, rounded once more: the tile's factor of dP, dO's scale after delta's dot. *)
Theorem scaled_result :
  forall s y y' e, Rabs (y - y') <= e ->
  Rabs (rnd (s * y) - s * y') <= Rabs s * e + u * (Rabs s * (Rabs y' + e)) + eta.
Proof.
  intros s y y' e H. assert (E := rnd_error (s * y)). assert (U := u_positive). assert (S := Rabs_pos s).
  assert (Y : Rabs y <= Rabs y' + e).
  { replace y with (y' + (y - y')) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (A : Rabs (s * y - s * y') <= Rabs s * e).
  { rewrite <- Rmult_minus_distr_l, Rabs_mult. apply Rmult_le_compat_l; assumption. }
  assert (B : u * Rabs (s * y) <= u * (Rabs s * (Rabs y' + e))).
  { rewrite Rabs_mult. apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_l; assumption. }
  replace (rnd (s * y) - s * y') with ((rnd (s * y) - s * y) + (s * y - s * y')) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** acc: W partial outputs t of the tensor core, each within e of its exact one, are multiplied with
    their windows' weights and summed by fused additions in any order; then 1 / l is multiplied. *)
Theorem windows_output :
  forall o r X E, let W := INR (products o) in
  forall exact, Rabs (inner o - exact) <= E -> inner_mass o <= X + E -> 0 <= E ->
  Rabs (rnd (computed o * r) - exact * r) <=
    (W * u * (X + E) + E + W * (1 + W * u) * eta) * Rabs r * (1 + u) + u * (Rabs exact * Rabs r) + eta.
Proof.
  intros o r X E W exact HE HM E0. assert (U := u_positive). assert (R := Rabs_pos r).
  assert (I := inner_any_order o). fold W in I. assert (W0 : 0 <= W) by apply pos_INR.
  assert (M : W * u * inner_mass o <= W * u * (X + E)) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | exact HM]).
  assert (D : Rabs (computed o - exact) <= W * u * (X + E) + E + W * (1 + W * u) * eta).
  { replace (computed o - exact) with ((computed o - inner o) + (inner o - exact)) by ring.
    eapply Rle_trans. apply Rabs_triang. lra. }
  assert (S := scaled_result r (computed o) exact _ D).
  rewrite (Rmult_comm (computed o)), (Rmult_comm exact). eapply Rle_trans. exact S.
  set (d := W * u * (X + E) + E + W * (1 + W * u) * eta) in *.
  replace (d * Rabs r * (1 + u) + u * (Rabs exact * Rabs r) + eta)
    with (Rabs r * d + u * (Rabs r * (Rabs exact + d)) + eta) by ring. lra.
Qed.

(** norm of associated: P is the forward's share, rounded twice; the sum of codes misses W by nu. *)
Theorem norm_associated :
  forall n P w nu' nu k f delta,
  (forall j, (j < n)%nat -> 0 <= w j) -> 0 < Sum n w -> Rabs nu' <= nu -> 0 <= nu -> 0 <= k ->
  (forall j, (j < n)%nat -> Rabs (P j - w j * (1 + nu') / Sum n w) <= k * Rabs (w j * (1 + nu') / Sum n w) + f) ->
  Rabs (delta * (1 - Sum n P)) <= Rabs delta * (compound nu k + INR n * f).
Proof.
  intros n P w nu' nu k f delta Hw HW Hnu N0 K0 H. rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos |].
  set (W := Sum n w) in *. assert (I : 0 < / W) by (apply Rinv_0_lt_compat; exact HW).
  assert (T : Sum n (fun j => w j * (1 + nu') / W) = 1 + nu').
  { rewrite (Sum_ext n _ (fun j => (1 + nu') / W * w j)) by (intros; unfold Rdiv; ring). rewrite Sum_scale. fold W. field. lra. }
  assert (A : Sum n (fun j => Rabs (w j * (1 + nu') / W)) = Rabs (1 + nu')).
  { rewrite (Sum_ext n _ (fun j => Rabs (1 + nu') / W * w j)).
    - rewrite Sum_scale. fold W. field. lra.
    - intros j J. unfold Rdiv. rewrite !Rabs_mult, (Rabs_right (w j)) by (apply Rle_ge, Hw, J). rewrite (Rabs_right (/ W)) by lra. ring. }
  assert (F : Sum n (fun _ => f) = INR n * f).
  { clear. induction n as [| n IH]; [simpl; ring |]. rewrite S_INR. simpl. rewrite IH. ring. }
  assert (D : Rabs (Sum n P - (1 + nu')) <= k * Rabs (1 + nu') + INR n * f).
  { assert (D0 : Rabs (Sum n P - Sum n (fun j => w j * (1 + nu') / W)) <= k * Rabs (1 + nu') + INR n * f).
    { rewrite <- Sum_minus. eapply Rle_trans. apply Sum_abs. eapply Rle_trans. apply Sum_le. exact H.
      rewrite Sum_plus, Sum_scale, A, F. lra. }
    rewrite T in D0. exact D0. }
  assert (B : Rabs (1 + nu') <= 1 + nu) by (eapply Rle_trans; [apply Rabs_triang | rewrite Rabs_R1; lra]).
  assert (kB : k * Rabs (1 + nu') <= k * (1 + nu)) by (apply Rmult_le_compat_l; assumption).
  replace (1 - Sum n P) with (- (Sum n P - (1 + nu')) + - nu') by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite !Rabs_Ropp. unfold compound. lra.
Qed.

(** prob of associated: each share rounded twice. *)
Theorem prob_associated :
  forall n P P' dP k f, 
  (forall j, (j < n)%nat -> Rabs (P j - P' j) <= k * Rabs (P' j) + f) ->
  Rabs (Sum n (fun j => (P j - P' j) * dP j)) <= Sum n (fun j => (k * Rabs (P' j) + f) * Rabs (dP j)).
Proof.
  intros n P P' dP k f H. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J. rewrite Rabs_mult.
  apply Rmult_le_compat_r; [apply Rabs_pos | apply H, J].
Qed.

(** balance where numerator and denominator are sums of e, and P is e r rounded: Q bounds the same of
    e, in units of r; k is P's relative error, f what underflow takes of one. *)
Theorem balance_of_exponentials :
  forall n P e d delta r k f Q,
  0 <= r -> 0 <= k < 1 -> (forall j, (j < n)%nat -> 0 <= e j) ->
  (forall j, (j < n)%nat -> Rabs (P j - e j * r) <= k * (e j * r) + f) ->
  Rabs (Sum n (fun j => e j * d j) - delta * Sum n e) <= Q ->
  Rabs (Sum n (fun j => P j * d j) - delta * Sum n P) <=
    Q * r + k * (Sum n (fun j => e j * r * Rabs (d j)) + Rabs delta * Sum n (fun j => e j * r)) +
    Sum n (fun j => f * (Rabs (d j) + Rabs delta)).
Proof.
  intros n P e d delta r k f Q Hr Hk He HP HQ.
  assert (S : Rabs (Sum n (fun j => (P j - e j * r) * (d j - delta))) <=
    Sum n (fun j => k * (e j * r * Rabs (d j)) + k * (Rabs delta * (e j * r)) + f * (Rabs (d j) + Rabs delta))).
  { eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J. rewrite Rabs_mult.
    assert (D : Rabs (d j - delta) <= Rabs (d j) + Rabs delta).
    { unfold Rminus. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra. }
    assert (E : 0 <= e j * r) by (apply Rmult_le_pos; [apply He, J | exact Hr]).
    assert (G := HP j J). assert (G0 := Rabs_pos (P j - e j * r)).
    assert (X : Rabs (P j - e j * r) * Rabs (d j - delta) <= (k * (e j * r) + f) * (Rabs (d j) + Rabs delta)).
    { apply Rmult_le_compat; [apply Rabs_pos | apply Rabs_pos | exact G | exact D]. }
    lra. }
  rewrite !Sum_plus, !Sum_scale in S.
  assert (X : Sum n (fun j => P j * d j) - delta * Sum n P =
    (Sum n (fun j => e j * d j) - delta * Sum n e) * r + Sum n (fun j => (P j - e j * r) * (d j - delta))).
  { rewrite (Sum_ext n (fun j => (P j - e j * r) * (d j - delta))
      (fun j => (P j * d j - delta * P j) - (r * (e j * d j) - (r * delta) * e j))) by (intros; ring).
    rewrite !Sum_minus, !Sum_scale. ring. }
  rewrite X. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult, (Rabs_right r) by lra.
  assert (Rabs (Sum n (fun j => e j * d j) - delta * Sum n e) * r <= Q * r) by (apply Rmult_le_compat_r; assumption).
  rewrite Sum_scale. lra.
Qed.
