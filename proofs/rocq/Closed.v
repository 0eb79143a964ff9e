(** Closed forms put together: errors of steps to an error of O, delta, a row of dS, dQ, dK, dV and
    to a bound of a row sum. Sections 1 and 5.

    Real numbers throughout: what rounding does stands in the premises, each of which is another
    theorem's claim. A name with a star is exact attention's. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Ledger.
Open Scope R_scope.

Lemma Sum_abs_le : forall n f g, (forall j, (j < n)%nat -> Rabs (f j) <= g j) -> Rabs (Sum n f) <= Sum n g.
Proof. intros n f g H. eapply Rle_trans. apply Sum_abs. apply Sum_le. exact H. Qed.

Lemma Sum_weighted : forall n f x X, 0 <= X -> (forall j, (j < n)%nat -> Rabs (x j) <= X) ->
  Rabs (Sum n (fun j => f j * x j)) <= Sum n (fun j => Rabs (f j)) * X.
Proof.
  intros n f x X HX H. rewrite Rmult_comm, <- Sum_scale. apply Sum_abs_le. intros j J. rewrite Rabs_mult, Rmult_comm.
  apply Rmult_le_compat_r; [apply Rabs_pos | apply H; exact J].
Qed.

Lemma Sum_triangle : forall n f g, Sum n (fun j => Rabs (f j)) <= Sum n (fun j => Rabs (g j)) + Sum n (fun j => Rabs (f j - g j)).
Proof.
  intros n f g. rewrite <- Sum_plus. apply Sum_le. intros j _.
  replace (f j) with (g j + (f j - g j)) at 1 by ring. apply Rabs_triang.
Qed.

Lemma Sum_abs_pos : forall n f, 0 <= Sum n (fun j => Rabs (f j)).
Proof. induction n as [| n IH]; intro f; simpl; [lra |]. assert (H := IH f). assert (P := Rabs_pos (f n)). lra. Qed.

(** O: weights off by w in all, the sum's relative error a, the store's b and t. *)
Theorem output_closed :
  forall n p P' v O32 O w a b t V,
  0 <= a -> 0 <= b -> 0 <= V -> (forall j, (j < n)%nat -> 0 <= p j) -> Sum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (v j) <= V) -> Sum n (fun j => Rabs (P' j - p j)) <= w ->
  Rabs (O32 - Sum n (fun j => P' j * v j)) <= a * Sum n (fun j => Rabs (P' j) * Rabs (v j)) ->
  Rabs (O - O32) <= b * Rabs O32 + t ->
  Rabs (O - Sum n (fun j => p j * v j)) <= V * ((1 + w) * (1 + a) * (1 + b) - 1) + t.
Proof.
  intros n p P' v O32 O w a b t V A B HV Hp S Hv W E F.
  assert (Sp : Sum n (fun j => Rabs (p j)) = 1).
  { rewrite <- S. apply Sum_ext. intros j J. apply Rabs_right, Rle_ge, Hp, J. }
  assert (L := Sum_triangle n P' p). rewrite Sp in L.
  assert (M : Sum n (fun j => Rabs (P' j) * Rabs (v j)) <= (1 + w) * V).
  { apply Rle_trans with (Sum n (fun j => V * Rabs (P' j))).
    - apply Sum_le. intros j J. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | apply Hv, J].
    - rewrite Sum_scale, Rmult_comm. apply Rmult_le_compat_r; lra. }
  assert (D : Rabs (Sum n (fun j => P' j * v j) - Sum n (fun j => p j * v j)) <= w * V).
  { rewrite <- Sum_minus. rewrite (Sum_ext n _ (fun j => (P' j - p j) * v j)) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted n (fun j => P' j - p j) v V HV Hv). apply Rmult_le_compat_r; lra. }
  assert (X := Sum_weighted n p v V HV Hv). rewrite Sp in X.
  assert (aM : a * Sum n (fun j => Rabs (P' j) * Rabs (v j)) <= a * ((1 + w) * V)) by (apply Rmult_le_compat_l; lra).
  set (exact := Sum n (fun j => p j * v j)) in *. set (mid := Sum n (fun j => P' j * v j)) in *.
  assert (E' : Rabs (O32 - exact) <= w * V + a * ((1 + w) * V)).
  { replace (O32 - exact) with ((O32 - mid) + (mid - exact)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (Z : Rabs O32 <= V + (w * V + a * ((1 + w) * V))).
  { replace O32 with (exact + (O32 - exact)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (bZ : b * Rabs O32 <= b * (V + (w * V + a * ((1 + w) * V)))) by (apply Rmult_le_compat_l; lra).
  replace (O - exact) with ((O - O32) + (O32 - exact)) by ring. eapply Rle_trans. apply Rabs_triang.
  replace (V * ((1 + w) * (1 + a) * (1 + b) - 1) + t)
    with (b * (V + (w * V + a * ((1 + w) * V))) + t + (w * V + a * ((1 + w) * V))) by ring. lra.
Qed.

(** delta, where it is a dot of dO with an O that is off by e: s bounds |dO| summed over channels. *)
Theorem delta_closed :
  forall m g o o' delta s e c V,
  0 <= e -> 0 <= c -> 0 <= V -> Sum m (fun k => Rabs (g k)) <= s ->
  (forall k, (k < m)%nat -> Rabs (o k - o' k) <= e /\ Rabs (o' k) <= V) ->
  Rabs (delta - Sum m (fun k => g k * o k)) <= c * Sum m (fun k => Rabs (g k) * Rabs (o k)) ->
  Rabs (delta - Sum m (fun k => g k * o' k)) <= s * e + c * (s * (V + e)).
Proof.
  intros m g o o' delta s e c V He Hc HV S H D.
  assert (O : forall k, (k < m)%nat -> Rabs (o k) <= V + e).
  { intros k K. destruct (H k K) as (A & B). replace (o k) with (o' k + (o k - o' k)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (M : Sum m (fun k => Rabs (g k) * Rabs (o k)) <= s * (V + e)).
  { apply Rle_trans with (Sum m (fun k => (V + e) * Rabs (g k))).
    - apply Sum_le. intros k K. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | apply O, K].
    - rewrite Sum_scale, Rmult_comm. apply Rmult_le_compat_r; lra. }
  assert (X : Rabs (Sum m (fun k => g k * o k) - Sum m (fun k => g k * o' k)) <= s * e).
  { rewrite <- Sum_minus. rewrite (Sum_ext m _ (fun k => g k * (o k - o' k))) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted m g (fun k => o k - o' k) e He). intros k K. apply H, K. apply Rmult_le_compat_r; lra. }
  assert (c * Sum m (fun k => Rabs (g k) * Rabs (o k)) <= c * (s * (V + e))) by (apply Rmult_le_compat_l; lra).
  replace (delta - Sum m (fun k => g k * o' k))
    with ((delta - Sum m (fun k => g k * o k)) + (Sum m (fun k => g k * o k) - Sum m (fun k => g k * o' k))) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.

(** A row of dS, sizes of differences summed: P off by w in all, dP by x, delta by y, dS by z and f. *)
Theorem row_closed :
  forall n p P d d' delta delta' dS w x y z f G,
  0 <= x -> 0 <= z -> 0 <= G -> (forall j, (j < n)%nat -> 0 <= p j) -> Sum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (d' j) <= G) -> Rabs delta' <= G -> Sum n (fun j => Rabs (P j - p j)) <= w ->
  (forall j, (j < n)%nat -> Rabs (d j - d' j) <= x) -> Rabs (delta - delta') <= y ->
  (forall j, (j < n)%nat -> Rabs (dS j - P j * (d j - delta)) <= z * Rabs (P j * (d j - delta)) + f) ->
  Sum n (fun j => Rabs (dS j - p j * (d' j - delta'))) <=
    w * (2 * G + x + y) + x + y + z * ((1 + w) * (2 * G + x + y)) + INR n * f.
Proof.
  intros n p P d d' delta delta' dS w x y z f G Hx Hz HG Hp S Hd Hdel W X Y Z.
  assert (Y0 : 0 <= y) by (assert (Q := Rabs_pos (delta - delta')); lra).
  set (D := 2 * G + x + y).
  assert (HD : forall j, (j < n)%nat -> Rabs (d j - delta) <= D).
  { intros j J. assert (A := Hd j J). assert (B := X j J). replace (d j - delta) with ((d j - d' j) + d' j + - delta' + - (delta - delta')) by ring.
    eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. eapply Rle_trans. apply Rplus_le_compat_r. apply Rabs_triang.
    rewrite Rabs_Ropp. eapply Rle_trans. apply Rplus_le_compat_r, Rplus_le_compat_r. apply Rabs_triang. unfold D. lra. }
  assert (Sp : Sum n (fun j => Rabs (p j)) = 1).
  { rewrite <- S. apply Sum_ext. intros j J. apply Rabs_right, Rle_ge, Hp, J. }
  assert (L := Sum_triangle n P p). rewrite Sp in L.
  assert (F : Sum n (fun _ => f) = INR n * f).
  { clear. induction n as [| n IH]; [simpl; ring |]. rewrite S_INR. simpl. rewrite IH. ring. }
  assert (T : Sum n (fun j => Rabs (dS j - p j * (d' j - delta'))) <=
    Sum n (fun j => z * D * Rabs (P j) + f + (D * Rabs (P j - p j) + (x + y) * p j))).
  { apply Sum_le. intros j J. assert (A := HD j J). assert (B := Z j J). assert (C := X j J). assert (E := Hp j J).
    assert (U : Rabs (P j * (d j - delta)) <= D * Rabs (P j)).
    { rewrite Rabs_mult, Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | exact A]. }
    assert (zU : z * Rabs (P j * (d j - delta)) <= z * D * Rabs (P j)).
    { rewrite Rmult_assoc. apply Rmult_le_compat_l; [exact Hz | exact U]. }
    assert (V : Rabs ((P j - p j) * (d j - delta)) <= D * Rabs (P j - p j)).
    { rewrite Rabs_mult, Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | exact A]. }
    assert (K : Rabs (p j * ((d j - d' j) - (delta - delta'))) <= (x + y) * p j).
    { rewrite Rabs_mult, (Rabs_right (p j)) by lra. rewrite Rmult_comm. apply Rmult_le_compat_r; [exact E |].
      unfold Rminus at 1. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra. }
    replace (dS j - p j * (d' j - delta'))
      with ((dS j - P j * (d j - delta)) + ((P j - p j) * (d j - delta) + p j * ((d j - d' j) - (delta - delta')))) by ring.
    eapply Rle_trans. apply Rabs_triang.
    assert (Q := Rabs_triang ((P j - p j) * (d j - delta)) (p j * ((d j - d' j) - (delta - delta')))). lra. }
  rewrite !Sum_plus, !Sum_scale, F, S in T. fold D.
  assert (HD0 : 0 <= D) by (unfold D; lra).
  assert (z * D * Sum n (fun j => Rabs (P j)) <= z * D * (1 + w)) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; assumption | lra]).
  assert (D * Sum n (fun j => Rabs (P j - p j)) <= D * w) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** dQ, dK, dV: a product whose left factor is off by E in all, of size S in all; the sum's relative
    error a, the store's b and t; c is the scale. *)
Theorem product_closed :
  forall n x x' k y out c K E S a b t,
  0 <= c -> 0 <= K -> 0 <= a -> 0 <= b -> (forall j, (j < n)%nat -> Rabs (k j) <= K) ->
  Sum n (fun j => Rabs (x j - x' j)) <= E -> Sum n (fun j => Rabs (x' j)) <= S ->
  Rabs (y - c * Sum n (fun j => x j * k j)) <= a * (c * Sum n (fun j => Rabs (x j) * Rabs (k j))) ->
  Rabs (out - y) <= b * Rabs y + t ->
  Rabs (out - c * Sum n (fun j => x' j * k j)) <=
    c * K * E + c * K * (S + E) * a + c * K * (S + E) * (1 + a) * b + t.
Proof.
  intros n x x' k y out c K E S a b t Hc HK Ha Hb Hk HE HS Hy Ho.
  assert (L := Sum_triangle n x x'). assert (L' : Sum n (fun j => Rabs (x j)) <= S + E) by lra.
  assert (M : Sum n (fun j => Rabs (x j) * Rabs (k j)) <= K * (S + E)).
  { apply Rle_trans with (Sum n (fun j => K * Rabs (x j))).
    - apply Sum_le. intros j J. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | apply Hk, J].
    - rewrite Sum_scale. apply Rmult_le_compat_l; lra. }
  assert (X := Sum_weighted n x k K HK Hk).
  assert (X' : Rabs (Sum n (fun j => x j * k j)) <= K * (S + E)).
  { eapply Rle_trans. exact X. rewrite Rmult_comm. apply Rmult_le_compat_l; lra. }
  assert (D : Rabs (Sum n (fun j => x j * k j) - Sum n (fun j => x' j * k j)) <= K * E).
  { rewrite <- Sum_minus. rewrite (Sum_ext n _ (fun j => (x j - x' j) * k j)) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted n (fun j => x j - x' j) k K HK Hk). rewrite Rmult_comm. apply Rmult_le_compat_l; lra. }
  set (s := Sum n (fun j => x j * k j)) in *. set (s' := Sum n (fun j => x' j * k j)) in *.
  assert (cM : a * (c * Sum n (fun j => Rabs (x j) * Rabs (k j))) <= a * (c * (K * (S + E)))).
  { apply Rmult_le_compat_l; [exact Ha |]. apply Rmult_le_compat_l; assumption. }
  assert (cX : Rabs (c * s) <= c * (K * (S + E))) by (rewrite Rabs_mult, (Rabs_right c) by lra; apply Rmult_le_compat_l; assumption).
  assert (cD : Rabs (c * s - c * s') <= c * (K * E)).
  { rewrite <- Rmult_minus_distr_l, Rabs_mult, (Rabs_right c) by lra. apply Rmult_le_compat_l; assumption. }
  assert (Y : Rabs y <= c * (K * (S + E)) + a * (c * (K * (S + E)))).
  { replace y with (c * s + (y - c * s)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (bY : b * Rabs y <= b * (c * (K * (S + E)) + a * (c * (K * (S + E))))) by (apply Rmult_le_compat_l; lra).
  replace (out - c * s') with ((out - y) + ((y - c * s) + (c * s - c * s'))) by ring.
  eapply Rle_trans. apply Rabs_triang. assert (Q := Rabs_triang (y - c * s) (c * s - c * s')).
  replace (c * K * E + c * K * (S + E) * a + c * K * (S + E) * (1 + a) * b + t)
    with (c * (K * E) + a * (c * (K * (S + E))) + b * (c * (K * (S + E)) + a * (c * (K * (S + E)))) + t) by ring. lra.
Qed.

(** The row sum of a stale delta, each term of the ledger at most its closed form: L bounds the sums of
    P and of P', s that of |dO|, V the values, G the |dP|; a, b, c, nb are the relative errors of the
    sum over keys, of the store, of delta's dot and of sum P; w the codes', g those of dO in all. *)
Theorem stale_closed :
  forall n m (P P' dP dS dO dO' O O32 : nat -> R) Vf Vb delta a b c nb w g x e V L s G,
  0 <= V -> 0 <= G -> 0 <= x -> 0 <= a -> 0 <= b -> 0 <= c -> 1 <= L ->
  (forall j k, (j < n)%nat -> (k < m)%nat -> Vb j k = Vf j k /\ Rabs (Vf j k) <= V) ->
  Sum n (fun j => Rabs (P j)) <= L -> Sum n (fun j => Rabs (P' j)) <= L ->
  Sum n (fun j => Rabs (P j - P' j)) <= w ->
  (forall j, (j < n)%nat -> Rabs (dP_exact m dO' Vb j) <= G /\ Rabs (dP j - dP_exact m dO' Vb j) <= x) ->
  Sum m (fun k => Rabs (dO k)) <= s -> Sum m (fun k => Rabs (dO' k - dO k)) <= g ->
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' Vf k) <= a * (V * L) /\ Rabs (O k - O32 k) <= b * (V * L)) ->
  Rabs (delta - Sum m (fun k => dO k * O k)) <= c * (s * (V * L)) -> Rabs delta <= s * (V * L) ->
  Rabs (1 - B_row n P) <= nb -> Rabs (elem n P dP dS delta) <= e ->
  Rabs (R_row n dS) <=
    w * G + g * (V * L) + s * (V * L) * a + s * (V * L) * b + c * (s * (V * L)) + s * (V * L) * nb + L * x + e.
Proof.
  intros n m P P' dP dS dO dO' O O32 Vf Vb delta a b c nb w g x e V L s G
    HV HG Hx Ha Hb Hc HL HVV SP SP' W HD HS HGr HO HDot HDel HB HE.
  rewrite (ledger_stale n m P P' dP dS dO dO' O O32 Vf Vb delta).
  assert (VL : 0 <= V * L) by (apply Rmult_le_pos; lra).
  assert (Tprob : Rabs (prob n m P P' dO' Vb) <= w * G).
  { unfold prob. rewrite (Sum_ext m _ (fun k => Sum n (fun j => (P j - P' j) * (dO' k * Vb j k)))).
    2: { intros k _. rewrite <- Sum_scale. apply Sum_ext. intros j _. ring. }
    rewrite <- Sum_exchange. rewrite (Sum_ext n _ (fun j => (P j - P' j) * dP_exact m dO' Vb j)).
    2: { intros j _. unfold dP_exact. rewrite <- Sum_scale. reflexivity. }
    eapply Rle_trans. apply (Sum_weighted n (fun j => P j - P' j) _ G HG). intros j J. apply HD, J.
    apply Rmult_le_compat_r; lra. }
  assert (Tv : vmis n m P' dO' Vf Vb = 0).
  { unfold vmis. rewrite (Sum_ext m _ (fun _ => 0)); [apply Sum_0 |]. intros k K.
    rewrite (Sum_ext n _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros j J. destruct (HVV j k J K) as (-> & _). ring. }
  assert (OX : forall k, (k < m)%nat -> Rabs (O_exact n P' Vf k) <= V * L).
  { intros k K. unfold O_exact. eapply Rle_trans. apply (Sum_weighted n P' _ V HV). intros j J. apply (HVV j k J K).
    rewrite Rmult_comm. apply Rmult_le_compat_l; lra. }
  assert (Tg : Rabs (grad n m P' dO dO' Vf) <= g * (V * L)).
  { unfold grad. eapply Rle_trans. apply (Sum_weighted m (fun k => dO' k - dO k) _ (V * L) VL OX). apply Rmult_le_compat_r; lra. }
  assert (Wd : forall y Y, 0 <= Y -> (forall k, (k < m)%nat -> Rabs (y k) <= Y) -> Rabs (Sum m (fun k => dO k * y k)) <= s * Y).
  { intros y Y HY H. eapply Rle_trans. apply (Sum_weighted m dO y Y HY H). apply Rmult_le_compat_r; lra. }
  assert (Ta : Rabs (acc n m P' dO O32 Vf) <= s * (V * L) * a).
  { unfold acc. rewrite Rabs_Ropp. replace (s * (V * L) * a) with (s * (a * (V * L))) by ring.
    apply Wd; [apply Rmult_le_pos; lra | intros k K; apply HO, K]. }
  assert (To : Rabs (out m dO O O32) <= s * (V * L) * b).
  { unfold out. rewrite Rabs_Ropp. replace (s * (V * L) * b) with (s * (b * (V * L))) by ring.
    apply Wd; [apply Rmult_le_pos; lra | intros k K; apply HO, K]. }
  assert (Td : Rabs (dot m dO O delta) <= c * (s * (V * L))) by (unfold dot; rewrite Rabs_Ropp; exact HDot).
  assert (Tn : Rabs (norm n P delta) <= s * (V * L) * nb).
  { unfold norm. rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; assumption. }
  assert (Tx : Rabs (accdP n m P dP dO' Vb) <= L * x).
  { unfold accdP. eapply Rle_trans. apply (Sum_weighted n P _ x Hx). intros j J. apply HD, J. apply Rmult_le_compat_r; lra. }
  rewrite Tv.
  apply Rabs_le_inv in Tprob, Tg, Ta, To, Td, Tn, Tx, HE. apply Rabs_le. lra.
Qed.
