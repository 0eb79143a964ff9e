(** The ledger: where the residual of a stale, consistent or associated delta comes from.

    Section 1, eq. 2 and the rest. One row: keys j < n, channels k < m. All names are reals, the
    exact values of the numbers that the kernel had:

    - [P j] the backward's probability, [P' j] the forward's, as it was used;
    - [dO k] the gradient that came in, [dO' k] the operand that dP uses;
    - [Vf j k], [Vb j k] the values of the forward and of the backward;
    - [dP j] what dS used, [O32 k] the output before its store, [O k] after it;
    - [delta], [dS j].

    The splitting is an identity: it holds whatever these numbers are. What says something is that
    each term has its own bound. *)
Require Import Reals Lra Lia.
From dmverify Require Import Binary32.
Open Scope R_scope.

Fixpoint Sum (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S n => Sum n f + f n end.

Lemma Sum_ext : forall n f g, (forall i, (i < n)%nat -> f i = g i) -> Sum n f = Sum n g.
Proof.
  induction n as [| n IH]; intros f g H; simpl; [reflexivity |].
  rewrite (IH f g), (H n); [reflexivity | lia |]. intros i I. apply H. lia.
Qed.

Lemma Sum_plus : forall n f g, Sum n (fun i => f i + g i) = Sum n f + Sum n g.
Proof. induction n as [| n IH]; intros f g; simpl; [ring | rewrite IH; ring]. Qed.

Lemma Sum_minus : forall n f g, Sum n (fun i => f i - g i) = Sum n f - Sum n g.
Proof. induction n as [| n IH]; intros f g; simpl; [ring | rewrite IH; ring]. Qed.

Lemma Sum_scale : forall n c f, Sum n (fun i => c * f i) = c * Sum n f.
Proof. induction n as [| n IH]; intros c f; simpl; [ring | rewrite IH; ring]. Qed.

Lemma Sum_0 : forall n, Sum n (fun _ => 0) = 0.
Proof. induction n as [| n IH]; simpl; [reflexivity | rewrite IH; ring]. Qed.

Lemma Sum_exchange :
  forall n m f, Sum n (fun i => Sum m (fun k => f i k)) = Sum m (fun k => Sum n (fun i => f i k)).
Proof.
  induction n as [| n IH]; intros m f; simpl.
  - symmetry. apply Sum_0.
  - rewrite IH, <- Sum_plus. reflexivity.
Qed.

Lemma Sum_abs : forall n f, Rabs (Sum n f) <= Sum n (fun i => Rabs (f i)).
Proof.
  induction n as [| n IH]; intro f; simpl.
  - rewrite Rabs_R0. lra.
  - eapply Rle_trans. apply Rabs_triang. assert (H := IH f). lra.
Qed.

Lemma Sum_le : forall n f g, (forall i, (i < n)%nat -> f i <= g i) -> Sum n f <= Sum n g.
Proof.
  induction n as [| n IH]; intros f g H; simpl; [lra |].
  assert (Sum n f <= Sum n g) by (apply IH; intros i I; apply H; lia).
  assert (f n <= g n) by (apply H; lia). lra.
Qed.

Section One_row.
  Variables n m : nat.
  Variables P P' dP dS : nat -> R.
  Variables dO dO' O O32 : nat -> R.
  Variables Vf Vb : nat -> nat -> R.
  Variable delta : R.

  Definition dP_exact j := Sum m (fun k => dO' k * Vb j k).
  Definition O_exact k := Sum n (fun j => P' j * Vf j k).
  Definition B_row := Sum n P.
  Definition R_row := Sum n dS.

  Definition prob := Sum m (fun k => dO' k * Sum n (fun j => (P j - P' j) * Vb j k)).
  Definition vmis := Sum m (fun k => dO' k * Sum n (fun j => P' j * (Vb j k - Vf j k))).
  Definition grad := Sum m (fun k => (dO' k - dO k) * O_exact k).
  Definition acc := - Sum m (fun k => dO k * (O32 k - O_exact k)).
  Definition out := - Sum m (fun k => dO k * (O k - O32 k)).
  Definition dot := - (delta - Sum m (fun k => dO k * O k)).
  Definition norm := delta * (1 - B_row).
  Definition accdP := Sum n (fun j => P j * (dP j - dP_exact j)).
  Definition elem := Sum n (fun j => dS j - P j * (dP j - delta)).

  Lemma operands :
    Sum n (fun j => P j * dP_exact j) = Sum m (fun k => dO' k * Sum n (fun j => P j * Vb j k)).
  Proof.
    unfold dP_exact.
    rewrite (Sum_ext n _ (fun j => Sum m (fun k => P j * (dO' k * Vb j k)))).
    2: { intros j _. symmetry. apply Sum_scale. }
    rewrite Sum_exchange. apply Sum_ext. intros k _.
    rewrite <- Sum_scale. apply Sum_ext. intros j _. ring.
  Qed.

  (** ledger-stale: with nothing left over. *)
  Theorem ledger_stale :
    R_row = prob + vmis + grad + acc + out + dot + norm + accdP + elem.
  Proof.
    unfold R_row, accdP, elem.
    rewrite !Sum_minus.
    rewrite (Sum_ext n (fun j => P j * (dP j - dP_exact j)) (fun j => P j * dP j - P j * dP_exact j))
      by (intros; ring).
    rewrite (Sum_ext n (fun j => P j * (dP j - delta)) (fun j => P j * dP j - delta * P j))
      by (intros; ring).
    rewrite !Sum_minus, Sum_scale, operands.
    unfold prob, vmis, grad, acc, out, dot, norm, B_row.
    assert (E : Sum m (fun k => dO' k * Sum n (fun j => (P j - P' j) * Vb j k))
              + Sum m (fun k => dO' k * Sum n (fun j => P' j * (Vb j k - Vf j k)))
              = Sum m (fun k => dO' k * Sum n (fun j => P j * Vb j k)) - Sum m (fun k => dO' k * O_exact k)).
    { rewrite <- Sum_plus, <- Sum_minus. apply Sum_ext. intros k _. unfold O_exact.
      rewrite <- Rmult_plus_distr_l, <- Rmult_minus_distr_l, <- Sum_plus, <- Sum_minus. f_equal.
      apply Sum_ext. intros j _. ring. }
    assert (G : Sum m (fun k => (dO' k - dO k) * O_exact k)
              = Sum m (fun k => dO' k * O_exact k) - Sum m (fun k => dO k * O_exact k)).
    { rewrite <- Sum_minus. apply Sum_ext. intros k _. ring. }
    assert (F : Sum m (fun k => dO k * (O32 k - O_exact k))
              = Sum m (fun k => dO k * O32 k) - Sum m (fun k => dO k * O_exact k)).
    { rewrite <- Sum_minus. apply Sum_ext. intros k _. ring. }
    assert (H : Sum m (fun k => dO k * (O k - O32 k))
              = Sum m (fun k => dO k * O k) - Sum m (fun k => dO k * O32 k)).
    { rewrite <- Sum_minus. apply Sum_ext. intros k _. ring. }
    lra.
  Qed.

  (** The article's eq. 2: the two terms of which the residual consists when everything else is
      exact, the rounding of the probabilities and the rounding of the gradient. *)
  Corollary eq2 :
    (forall k, (k < m)%nat -> O32 k = O_exact k) -> (forall k, (k < m)%nat -> O k = O32 k) ->
    delta = Sum m (fun k => dO k * O k) -> B_row = 1 ->
    (forall j, (j < n)%nat -> dP j = dP_exact j) ->
    (forall j, (j < n)%nat -> dS j = P j * (dP j - delta)) ->
    (forall j k, (j < n)%nat -> (k < m)%nat -> Vb j k = Vf j k) ->
    R_row = prob + grad.
  Proof.
    intros HO32 HO Hd HB HdP HdS HV. rewrite ledger_stale.
    assert (Z1 : vmis = 0).
    { unfold vmis. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k K.
      rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j J. rewrite HV by assumption. ring. }
    assert (Z2 : acc = 0).
    { unfold acc. rewrite (Sum_ext m _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros k K. rewrite HO32 by assumption. ring. }
    assert (Z3 : out = 0).
    { unfold out. rewrite (Sum_ext m _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros k K. rewrite HO by assumption. ring. }
    assert (Z4 : dot = 0) by (unfold dot; rewrite <- Hd; ring).
    assert (Z5 : norm = 0) by (unfold norm; rewrite HB; ring).
    assert (Z6 : accdP = 0).
    { unfold accdP. rewrite (Sum_ext n _ (fun _ => 0)); [apply Sum_0 |]. intros j J. rewrite HdP by assumption. ring. }
    assert (Z7 : elem = 0).
    { unfold elem. rewrite (Sum_ext n _ (fun _ => 0)); [apply Sum_0 |]. intros j J. rewrite HdS by assumption. ring. }
    lra.
  Qed.

  (** Each term by its own bound. [eP] bounds the probabilities' error relative to P, [eG] the
      gradient's relative to itself plus [hG] absolutely, [eA] the accumulation of O, [eO] its store,
      [eD] the dot, [eB] the normaliser, [eX] the accumulation of dP, [eE] the roundings of dS. *)
  Variables eP eG hG eB eD eE : R.
  Variables eA eO : nat -> R.
  Variable eX : nat -> R.

  Theorem stale_bound :
    (forall j, (j < n)%nat -> Rabs (P j - P' j) <= eP * Rabs (P j)) ->
    (forall k, (k < m)%nat -> Rabs (dO' k - dO k) <= eG * Rabs (dO k) + hG) ->
    (forall k, (k < m)%nat -> Rabs (O32 k - O_exact k) <= eA k) ->
    (forall k, (k < m)%nat -> Rabs (O k - O32 k) <= eO k) ->
    Rabs (delta - Sum m (fun k => dO k * O k)) <= eD ->
    Rabs (1 - B_row) <= eB ->
    (forall j, (j < n)%nat -> Rabs (dP j - dP_exact j) <= eX j) ->
    Rabs elem <= eE ->
    (forall j k, (j < n)%nat -> (k < m)%nat -> Vb j k = Vf j k) ->
    Rabs R_row <=
      eP * Sum n (fun j => Rabs (P j) * Rabs (dP_exact j))
      + Sum m (fun k => (eG * Rabs (dO k) + hG) * Rabs (O_exact k))
      + Sum m (fun k => Rabs (dO k) * eA k) + Sum m (fun k => Rabs (dO k) * eO k)
      + eD + Rabs delta * eB + Sum n (fun j => Rabs (P j) * eX j) + eE.
  Proof.
    intros HP HG HA HO HD HB HX HE HV. rewrite ledger_stale.
    assert (Z : vmis = 0).
    { unfold vmis. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k K.
      rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j J. rewrite HV by assumption. ring. }
    assert (TP : Rabs prob <= eP * Sum n (fun j => Rabs (P j) * Rabs (dP_exact j))).
    { assert (E : prob = Sum n (fun j => (P j - P' j) * dP_exact j)).
      { unfold prob, dP_exact.
        rewrite (Sum_ext m _ (fun k => Sum n (fun j => dO' k * ((P j - P' j) * Vb j k))))
          by (intros; symmetry; apply Sum_scale).
        rewrite <- Sum_exchange. apply Sum_ext. intros j _.
        rewrite <- Sum_scale. apply Sum_ext. intros k _. ring. }
      rewrite E, <- Sum_scale. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J.
      rewrite Rabs_mult, <- Rmult_assoc. apply Rmult_le_compat_r; [apply Rabs_pos | apply HP; exact J]. }
    assert (TG : Rabs grad <= Sum m (fun k => (eG * Rabs (dO k) + hG) * Rabs (O_exact k))).
    { unfold grad. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros k K.
      rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos | apply HG; exact K]. }
    assert (TA : Rabs acc <= Sum m (fun k => Rabs (dO k) * eA k)).
    { unfold acc. rewrite Rabs_Ropp. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros k K.
      rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos | apply HA; exact K]. }
    assert (TO : Rabs out <= Sum m (fun k => Rabs (dO k) * eO k)).
    { unfold out. rewrite Rabs_Ropp. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros k K.
      rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos | apply HO; exact K]. }
    assert (TD : Rabs dot <= eD) by (unfold dot; rewrite Rabs_Ropp; exact HD).
    assert (TN : Rabs norm <= Rabs delta * eB).
    { unfold norm. rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos | exact HB]. }
    assert (TX : Rabs accdP <= Sum n (fun j => Rabs (P j) * eX j)).
    { unfold accdP. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J.
      rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos | apply HX; exact J]. }
    rewrite Z, Rplus_0_r.
    repeat (eapply Rle_trans; [apply Rabs_triang |]; apply Rplus_le_compat; [| assumption]).
    exact TP.
  Qed.
End One_row.

(** consistent: dO is the operand that dP uses, and the gradient's term vanishes. *)
Corollary ledger_consistent :
  forall n m P P' dP dS dO' O O32 Vf Vb delta,
  R_row n dS =
    prob n m P P' dO' Vb + vmis n m P' dO' Vf Vb + acc n m P' dO' O32 Vf + out m dO' O O32
    + dot m dO' O delta + norm n P delta + accdP n m P dP dO' Vb + elem n P dP dS delta.
Proof.
  intros. rewrite (ledger_stale n m P P' dP dS dO' dO' O O32 Vf Vb delta).
  assert (Z : grad n m P' dO' dO' Vf = 0).
  { unfold grad. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k _. ring. }
  lra.
Qed.

(** associated: besides, delta reads O before its store, and dS the forward's own probabilities. *)
Corollary ledger_associated :
  forall n m P dP dS dO' O32 V delta,
  R_row n dS =
    acc n m P dO' O32 V + dot m dO' O32 delta + norm n P delta + accdP n m P dP dO' V
    + elem n P dP dS delta.
Proof.
  intros. rewrite (ledger_consistent n m P P dP dS dO' O32 O32 V V delta).
  assert (Z1 : prob n m P P dO' V = 0).
  { unfold prob. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k _.
    rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j _. ring. }
  assert (Z2 : vmis n m P dO' V V = 0).
  { unfold vmis. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k _.
    rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j _. ring. }
  assert (Z3 : out m dO' O32 O32 = 0).
  { unfold out. rewrite (Sum_ext m _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros k _. ring. }
  lra.
Qed.

(** Column sums of dK, before and after the cast: they are the row residuals seen through q. *)
Theorem column_sums :
  forall rows n (dS : nat -> nat -> R) (q : nat -> R) scale,
  Sum n (fun j => scale * Sum rows (fun i => dS i j * q i)) =
  scale * Sum rows (fun i => Sum n (fun j => dS i j) * q i).
Proof.
  intros. rewrite Sum_scale. f_equal. rewrite Sum_exchange. apply Sum_ext. intros i _.
  rewrite (Sum_ext n (fun j => dS i j * q i) (fun j => q i * dS i j)) by (intros; ring).
  rewrite (Sum_scale n (q i) (fun j => dS i j)). ring.
Qed.

(** ... and so is their bound, from bounds of the rows and of what the stored dK is off. *)
Theorem column_sum_bound :
  forall rows n (dS : nat -> nat -> R) (q r dK e : nat -> R) scale,
  (forall i, (i < rows)%nat -> Rabs (Sum n (fun j => dS i j)) <= r i) ->
  (forall j, (j < n)%nat -> Rabs (dK j - scale * Sum rows (fun i => dS i j * q i)) <= e j) ->
  Rabs (Sum n dK) <= Rabs scale * Sum rows (fun i => r i * Rabs (q i)) + Sum n e.
Proof.
  intros rows n dS q r dK e scale HR HK.
  set (x := fun j => scale * Sum rows (fun i => dS i j * q i)).
  assert (D : Rabs (Sum n dK - Sum n x) <= Sum n e).
  { rewrite <- Sum_minus. eapply Rle_trans. apply Sum_abs. apply Sum_le. exact HK. }
  assert (X : Rabs (Sum n x) <= Rabs scale * Sum rows (fun i => r i * Rabs (q i))).
  { unfold x. rewrite column_sums, Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos |].
    eapply Rle_trans. apply Sum_abs. apply Sum_le. intros i I.
    rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos | apply HR; exact I]. }
  replace (Sum n dK) with ((Sum n dK - Sum n x) + Sum n x) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.
