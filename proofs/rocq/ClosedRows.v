(** Closed forms of a row's sum with what underflow takes, for a delta that reads the output.

    Sections 1 and 5. As [Closed.stale_closed], and beside each relative error an absolute one: a0 of
    the sum over keys, b0 of the store, c0 of delta's dot, x0 of dP's. They do not shrink with the
    operands, so a bound without them fails where V is subnormal in BF16. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Ledger Closed.
Open Scope R_scope.

(** Every term of the ledger at its closed form; w bounds sum |P - P'|, g sum |dO' - dO|. *)
Theorem stale_closed_row :
  forall n m (P P' dP dS dO dO' O O32 : nat -> R) V delta a b c nb w g x e a0 b0 c0 x0 Vb L s G,
  0 <= Vb -> 0 <= G -> 0 <= x + x0 -> 0 <= a -> 0 <= b -> 0 <= a0 -> 0 <= b0 -> 0 <= c0 -> 1 <= L ->
  (forall j k, (j < n)%nat -> (k < m)%nat -> Rabs (V j k) <= Vb) ->
  Sum n (fun j => Rabs (P j)) <= L -> Sum n (fun j => Rabs (P' j)) <= L -> Sum n (fun j => Rabs (P j - P' j)) <= w ->
  (forall j, (j < n)%nat -> Rabs (dP_exact m dO' V j) <= G /\ Rabs (dP j - dP_exact m dO' V j) <= x + x0) ->
  Sum m (fun k => Rabs (dO k)) <= s -> Sum m (fun k => Rabs (dO' k - dO k)) <= g ->
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' V k) <= a * (Vb * L) + a0 * L /\ Rabs (O k - O32 k) <= b * (Vb * L) + b0) ->
  Rabs (delta - Sum m (fun k => dO k * O k)) <= c * (s * (Vb * L)) + c0 * L -> Rabs delta <= s * (Vb * L) ->
  Rabs (1 - B_row n P) <= nb -> Rabs (elem n P dP dS delta) <= e ->
  Rabs (R_row n dS) <=
    w * G + g * (Vb * L) + s * (Vb * L) * a + s * (Vb * L) * b + c * (s * (Vb * L)) + s * (Vb * L) * nb + L * x + e
    + (s * a0 + (c0 + x0)) * L + s * b0.
Proof.
  intros n m P P' dP dS dO dO' O O32 V delta a b c nb w g x e a0 b0 c0 x0 Vb L s G
    HV HG Hx Ha Hb Ha0 Hb0 Hc0 HL HVV SP SP' W HD HS HGr HO HDot HDel HB HE.
  rewrite (ledger_stale n m P P' dP dS dO dO' O O32 V V delta).
  assert (VL : 0 <= Vb * L) by (apply Rmult_le_pos; lra).
  assert (Tprob : Rabs (prob n m P P' dO' V) <= w * G).
  { unfold prob. rewrite (Sum_ext m _ (fun k => Sum n (fun j => (P j - P' j) * (dO' k * V j k)))).
    2: { intros k _. rewrite <- Sum_scale. apply Sum_ext. intros j _. ring. }
    rewrite <- Sum_exchange. rewrite (Sum_ext n _ (fun j => (P j - P' j) * dP_exact m dO' V j)).
    2: { intros j _. unfold dP_exact. rewrite <- Sum_scale. reflexivity. }
    eapply Rle_trans. apply (Sum_weighted n (fun j => P j - P' j) _ G HG). intros j J. apply HD, J.
    apply Rmult_le_compat_r; lra. }
  assert (Tv : vmis n m P' dO' V V = 0).
  { unfold vmis. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k K.
    rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j J. ring. }
  assert (OX : forall k, (k < m)%nat -> Rabs (O_exact n P' V k) <= Vb * L).
  { intros k K. unfold O_exact. eapply Rle_trans. apply (Sum_weighted n P' _ Vb HV). intros j J. apply (HVV j k J K).
    rewrite Rmult_comm. apply Rmult_le_compat_l; lra. }
  assert (Tg : Rabs (grad n m P' dO dO' V) <= g * (Vb * L)).
  { unfold grad. eapply Rle_trans. apply (Sum_weighted m (fun k => dO' k - dO k) _ (Vb * L) VL OX). apply Rmult_le_compat_r; lra. }
  assert (Wd : forall y Y, 0 <= Y -> (forall k, (k < m)%nat -> Rabs (y k) <= Y) -> Rabs (Sum m (fun k => dO k * y k)) <= s * Y).
  { intros y Y HY H. eapply Rle_trans. apply (Sum_weighted m dO y Y HY H). apply Rmult_le_compat_r; lra. }
  assert (aL : 0 <= a0 * L) by (apply Rmult_le_pos; lra).
  assert (Ta : Rabs (acc n m P' dO O32 V) <= s * (a * (Vb * L) + a0 * L)).
  { unfold acc. rewrite Rabs_Ropp. apply Wd; [| intros k K; apply HO, K].
    assert (0 <= a * (Vb * L)) by (apply Rmult_le_pos; assumption). lra. }
  assert (To : Rabs (out m dO O O32) <= s * (b * (Vb * L) + b0)).
  { unfold out. rewrite Rabs_Ropp. apply Wd; [| intros k K; apply HO, K].
    assert (0 <= b * (Vb * L)) by (apply Rmult_le_pos; assumption). lra. }
  assert (Td : Rabs (dot m dO O delta) <= c * (s * (Vb * L)) + c0 * L) by (unfold dot; rewrite Rabs_Ropp; exact HDot).
  assert (Tn : Rabs (norm n P delta) <= s * (Vb * L) * nb).
  { unfold norm. rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; assumption. }
  assert (Tx : Rabs (accdP n m P dP dO' V) <= L * (x + x0)).
  { unfold accdP. eapply Rle_trans. apply (Sum_weighted n P _ (x + x0) Hx). intros j J. apply HD, J. apply Rmult_le_compat_r; lra. }
  rewrite Tv.
  apply Rabs_le_inv in Tprob, Tg, Ta, To, Td, Tn, Tx, HE. apply Rabs_le. lra.
Qed.

(** consistent: no grad. *)
Theorem consistent_closed_row :
  forall n m (P P' dP dS dO' O O32 : nat -> R) V delta a b c nb w x e a0 b0 c0 x0 Vb L s G,
  0 <= Vb -> 0 <= G -> 0 <= x + x0 -> 0 <= a -> 0 <= b -> 0 <= a0 -> 0 <= b0 -> 0 <= c0 -> 1 <= L ->
  (forall j k, (j < n)%nat -> (k < m)%nat -> Rabs (V j k) <= Vb) ->
  Sum n (fun j => Rabs (P j)) <= L -> Sum n (fun j => Rabs (P' j)) <= L -> Sum n (fun j => Rabs (P j - P' j)) <= w ->
  (forall j, (j < n)%nat -> Rabs (dP_exact m dO' V j) <= G /\ Rabs (dP j - dP_exact m dO' V j) <= x + x0) ->
  Sum m (fun k => Rabs (dO' k)) <= s ->
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' V k) <= a * (Vb * L) + a0 * L /\ Rabs (O k - O32 k) <= b * (Vb * L) + b0) ->
  Rabs (delta - Sum m (fun k => dO' k * O k)) <= c * (s * (Vb * L)) + c0 * L -> Rabs delta <= s * (Vb * L) ->
  Rabs (1 - B_row n P) <= nb -> Rabs (elem n P dP dS delta) <= e ->
  Rabs (R_row n dS) <=
    w * G + s * (Vb * L) * a + s * (Vb * L) * b + c * (s * (Vb * L)) + s * (Vb * L) * nb + L * x + e
    + (s * a0 + (c0 + x0)) * L + s * b0.
Proof.
  intros n m P P' dP dS dO' O O32 V delta a b c nb w x e a0 b0 c0 x0 Vb L s G
    HV HG Hx Ha Hb Ha0 Hb0 Hc0 HL HVV SP SP' W HD HS HO HDot HDel HB HE.
  assert (Z : Sum m (fun k => Rabs (dO' k - dO' k)) <= 0).
  { rewrite (Sum_ext m _ (fun _ => 0)); [rewrite Sum_0; lra |]. intros k _. replace (dO' k - dO' k) with 0 by ring. apply Rabs_R0. }
  assert (S := stale_closed_row n m P P' dP dS dO' dO' O O32 V delta a b c nb w 0 x e a0 b0 c0 x0 Vb L s G
    HV HG Hx Ha Hb Ha0 Hb0 Hc0 HL HVV SP SP' W HD HS Z HO HDot HDel HB HE). lra.
Qed.

(** associated: O before its store; what rounds the forward's shares stands beside what their sum misses. *)
Theorem associated_closed_row :
  forall n m (P P' dP dS dO' O32 : nat -> R) V delta a c nb w x e a0 c0 x0 Vb L s,
  0 <= Vb -> 0 <= x + x0 -> 0 <= a -> 0 <= a0 -> 0 <= c0 -> 1 <= L ->
  (forall j k, (j < n)%nat -> (k < m)%nat -> Rabs (V j k) <= Vb) ->
  Sum n (fun j => Rabs (P j)) <= L -> Sum n (fun j => Rabs (P' j)) <= L -> Sum n (fun j => Rabs (P j - P' j)) <= w ->
  (forall j, (j < n)%nat -> Rabs (dP j - dP_exact m dO' V j) <= x + x0) ->
  Sum m (fun k => Rabs (dO' k)) <= s ->
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' V k) <= a * (Vb * L) + a0 * L) ->
  Rabs (delta - Sum m (fun k => dO' k * O32 k)) <= c * (s * (Vb * L)) + c0 * L -> Rabs delta <= s * (Vb * L) ->
  Rabs (1 - B_row n P) <= nb -> Rabs (elem n P dP dS delta) <= e ->
  Rabs (R_row n dS) <=
    s * (Vb * L) * a + c * (s * (Vb * L)) + s * (Vb * L) * (nb + w) + L * x + e + (s * a0 + (c0 + x0)) * L.
Proof.
  intros n m P P' dP dS dO' O32 V delta a c nb w x e a0 c0 x0 Vb L s
    HV Hx Ha Ha0 Hc0 HL HVV SP SP' W HD HS HO HDot HDel HB HE.
  assert (S0 : 0 <= s) by (eapply Rle_trans; [apply (Sum_abs_pos m dO') | exact HS]).
  assert (VL : 0 <= Vb * L) by (apply Rmult_le_pos; lra).
  assert (G0 : 0 <= s * (Vb * L)) by (apply Rmult_le_pos; assumption).
  assert (D : forall j, (j < n)%nat -> Rabs (dP_exact m dO' V j) <= s * (Vb * L) /\ Rabs (dP j - dP_exact m dO' V j) <= x + x0).
  { intros j J. split; [| apply HD, J]. unfold dP_exact. eapply Rle_trans.
    - apply (Sum_weighted m dO' (fun k => V j k) Vb HV). intros k K. apply HVV; assumption.
    - assert (0 <= Vb * (L - 1)) by (apply Rmult_le_pos; lra). apply Rmult_le_compat; try lra. apply (Sum_abs_pos m dO'). }
  assert (O : forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' V k) <= a * (Vb * L) + a0 * L /\ Rabs (O32 k - O32 k) <= 0 * (Vb * L) + 0).
  { intros k K. split; [apply HO, K |]. replace (O32 k - O32 k) with 0 by ring. rewrite Rabs_R0. lra. }
  assert (S := consistent_closed_row n m P P' dP dS dO' O32 O32 V delta a 0 c nb w x e a0 0 c0 x0 Vb L s (s * (Vb * L))
    HV G0 Hx Ha (Rle_refl 0) Ha0 (Rle_refl 0) Hc0 HL HVV SP SP' W D HS O HDot HDel HB HE). lra.
Qed.
