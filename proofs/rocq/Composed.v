(** More closed forms put together: exponentials, LSE, weights, delta, casts of whole rows, and row
    sums of every delta that reads the output. Sections 1, 4 and 5.

    As in [Closed], a premise is what another theorem claims; a name with a star is exact. *)
Require Import Reals Lra Lia.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Orders Stores Casts Known Ledger Codes Closed Passes Centring.
Open Scope R_scope.

(** * Sums of numbers that are not negative *)

Fixpoint not_negative (t : tree) : Prop :=
  match t with Leaf x => 0 <= x | Node l r => not_negative l /\ not_negative r end.

Lemma total_not_negative : forall t, not_negative t -> 0 <= total t.
Proof. induction t; simpl; intro H; [exact H |]. destruct H as (A & B). specialize (IHt1 A). specialize (IHt2 B). lra. Qed.

Lemma sum_not_negative : forall t, not_negative t -> 0 <= sum t.
Proof.
  induction t; simpl; intro H; [exact H |]. destruct H as (A & B). specialize (IHt1 A). specialize (IHt2 B).
  rewrite <- rnd_0. unfold rnd. apply round_le; [apply fexp_valid | apply valid_rnd_N | lra].
Qed.

Lemma one_plus_u_power : forall k, 1 <= (1 + u) ^ k.
Proof. intro k. apply pow_R1_Rle. assert (U := u_positive). lra. Qed.

Lemma power_monotone : forall k l, (k <= l)%nat -> (1 + u) ^ k <= (1 + u) ^ l.
Proof. intros k l H. apply Rle_pow; [assert (U := u_positive); lra | exact H]. Qed.

(** No cancellation: a sum is off by a factor of at most (1 + u)^k, on either side. *)
Lemma positive_factor :
  forall t, terms_in_format t -> not_negative t ->
  total t <= sum t * (1 + u) ^ height t /\ sum t <= total t * (1 + u) ^ height t.
Proof.
  assert (U := u_positive).
  induction t as [x | l IHl r IHr]; [intros _ H; simpl in *; lra |].
  intros (Fl & Fr) (Nl & Nr).
  destruct (IHl Fl Nl) as (A & B). destruct (IHr Fr Nr) as (C & D).
  assert (SL := sum_not_negative l Nl). assert (SR := sum_not_negative r Nr).
  assert (TL := total_not_negative l Nl). assert (TR := total_not_negative r Nr).
  change (height (Node l r)) with (S (Nat.max (height l) (height r))).
  change (sum (Node l r)) with (rnd (sum l + sum r)). change (total (Node l r)) with (total l + total r).
  set (g := (1 + u) ^ Nat.max (height l) (height r)).
  assert (GL : (1 + u) ^ height l <= g) by (apply power_monotone; lia).
  assert (GR : (1 + u) ^ height r <= g) by (apply power_monotone; lia).
  assert (E := rnd_plus_relative (sum l) (sum r) (sum_format l Fl) (sum_format r Fr)).
  rewrite (Rabs_right (sum l + sum r)) in E by lra. apply Rabs_le_inv in E.
  assert (V : v * (1 + u) = u) by (unfold v; field; lra).
  assert (VU := v_below_u).
  assert (A' : total l <= sum l * g) by (eapply Rle_trans; [exact A | apply Rmult_le_compat_l; assumption]).
  assert (C' : total r <= sum r * g) by (eapply Rle_trans; [exact C | apply Rmult_le_compat_l; assumption]).
  assert (B' : sum l <= total l * g) by (eapply Rle_trans; [exact B | apply Rmult_le_compat_l; assumption]).
  assert (D' : sum r <= total r * g) by (eapply Rle_trans; [exact D | apply Rmult_le_compat_l; assumption]).
  assert (G1 : 1 <= g) by apply one_plus_u_power.
  replace ((1 + u) ^ S (Nat.max (height l) (height r))) with ((1 + u) * g) by reflexivity.
  set (s := sum l + sum r) in *. set (t := total l + total r) in *.
  assert (T1 : t <= s * g) by (unfold s, t; lra).
  assert (T2 : s <= t * g) by (unfold s, t; lra).
  split.
  - assert (L : s <= rnd s * (1 + u)).
    { assert (M : (1 - v) * s * (1 + u) <= rnd s * (1 + u)) by (apply Rmult_le_compat_r; lra).
      replace ((1 - v) * s * (1 + u)) with (s * ((1 + u) - v * (1 + u))) in M by ring. rewrite V in M. lra. }
    assert (s * g <= rnd s * (1 + u) * g) by (apply Rmult_le_compat_r; lra). lra.
  - assert (L : rnd s <= s * (1 + u)).
    { assert (v * s <= u * s) by (apply Rmult_le_compat_r; unfold s in *; lra). lra. }
    assert (s * (1 + u) <= t * g * (1 + u)) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Lemma ln_below : forall x, 0 < x -> ln x <= x - 1.
Proof. intros x H. assert (E := exp_ineq1_le (ln x)). rewrite exp_ln in E by exact H. lra. Qed.

Lemma ln_monotone : forall x y, 0 < x -> x <= y -> ln x <= ln y.
Proof.
  intros x y P H. destruct (Rle_lt_or_eq_dec _ _ H) as [L | E]; [left; apply ln_increasing; assumption | rewrite E; lra].
Qed.

(** What a logarithm of such a sum is off by. *)
Theorem logarithm_of_a_sum :
  forall t k, terms_in_format t -> not_negative t -> (height t <= k)%nat -> 0 < total t ->
  Rabs (ln (sum t / total t)) <= path k.
Proof.
  intros t k F N H P. destruct (positive_factor t F N) as (A & B).
  assert (G := power_monotone _ _ H). assert (G1 := one_plus_u_power (height t)).
  assert (S0 : 0 < sum t).
  { destruct (Rle_lt_or_eq_dec _ _ (sum_not_negative t N)) as [L | E]; [exact L |]. rewrite <- E in A. lra. }
  assert (Q : 0 < sum t / total t) by (apply Rdiv_lt_0_compat; assumption).
  assert (Q' : 0 < total t / sum t) by (apply Rdiv_lt_0_compat; assumption).
  apply Rabs_le. split.
  - replace (ln (sum t / total t)) with (- ln (total t / sum t)) by (unfold Rdiv; rewrite !ln_mult, !ln_Rinv; try apply Rinv_0_lt_compat; try assumption; ring).
    apply Ropp_le_contravar. eapply Rle_trans. apply ln_below. exact Q'.
    unfold path. apply Rplus_le_compat_r. apply Rmult_le_reg_r with (sum t); [exact S0 |].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (sum t * (1 + u) ^ height t <= sum t * (1 + u) ^ k) by (apply Rmult_le_compat_l; lra). lra.
  - eapply Rle_trans. apply ln_below. exact Q.
    unfold path. apply Rplus_le_compat_r. apply Rmult_le_reg_r with (total t); [exact P |].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (total t * (1 + u) ^ height t <= total t * (1 + u) ^ k) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** * Exponentials *)

(** A function's relative error as one of the logarithm. *)
Theorem logarithm_of_an_error : forall f F, 0 <= F < 1 -> Rabs f <= F -> Rabs (ln (1 + f)) <= inverse F.
Proof.
  intros f F (F0 & F1) H. apply Rabs_le_inv in H. unfold inverse.
  assert (I : F <= F / (1 - F)).
  { apply Rmult_le_reg_r with (1 - F); [lra |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (0 <= F * F) by (apply Rmult_le_pos; lra). lra. }
  apply Rabs_le. split.
  - assert (L := ln_below (/ (1 + f)) ltac:(apply Rinv_0_lt_compat; lra)). rewrite ln_Rinv in L by lra.
    assert (X : / (1 + f) <= / (1 - F)) by (apply Rinv_le; lra).
    replace (F / (1 - F)) with (/ (1 - F) - 1) by (field; lra). lra.
  - assert (L := ln_below (1 + f) ltac:(lra)). lra.
Qed.

(** ln of an exponential as it is computed: the logit within L d, the argument rounded once, the
    function as its error w says; T is what logits are apart, both of them computed. *)
Theorem exponent_closed :
  forall x s b arg w e L d T k F,
  0 < w -> e = exp arg * w -> Rabs (s - x) <= L * d -> Rabs (arg - (s - b)) <= u * Rabs (s - b) ->
  Rabs (s - b) <= T * (1 + d) -> Rabs (ln w) <= k * inverse F ->
  Rabs (ln e - (x - b)) <= L * d + u * (T * (1 + d)) + k * inverse F.
Proof.
  intros x s b arg w e L d T k F W -> S A B F'. assert (U := u_positive).
  rewrite ln_mult, ln_exp by (try apply exp_pos; exact W).
  assert (u * Rabs (s - b) <= u * (T * (1 + d))) by (apply Rmult_le_compat_l; lra).
  replace (arg + ln w - (x - b)) with ((arg - (s - b)) + ((s - x) + ln w)) by ring.
  eapply Rle_trans. apply Rabs_triang. assert (Q := Rabs_triang (s - x) (ln w)). lra.
Qed.

Lemma Sum_positive : forall n f, (0 < n)%nat -> (forall j, (j < n)%nat -> 0 < f j) -> 0 < Sum n f.
Proof.
  induction n as [| n IH]; intros f H P; [lia |]. simpl. assert (A := P n ltac:(lia)).
  destruct n as [| n]; [simpl; lra |]. assert (B := IH f ltac:(lia) ltac:(intros; apply P; lia)). lra.
Qed.

(** LSE: exponentials relative to b, each off by e in its logarithm; their sum l by s, its logarithm
    g by c; what centring gives back, mu, by z M; and roundings at the end, of sizes up to 2 (Z + 1). *)
Theorem lse_closed :
  forall n x E b l g mu mu' out e s c T z M k Z,
  (0 < n)%nat -> 0 <= c ->
  (forall j, (j < n)%nat -> 0 < E j /\ Rabs (ln (E j) - (x j - b)) <= e) ->
  0 < l -> Rabs (ln (l / Sum n E)) <= s ->
  Rabs (g - ln l) <= c * (1 + Rabs (ln l)) -> Rabs (ln l) <= 2 * T ->
  Rabs (mu' - mu) <= z * M -> Rabs (out - (b + g + mu')) <= k * (2 * (Z + 1)) ->
  Rabs (out - (ln (Sum n (fun j => exp (x j))) + mu)) <=
    e + s + c * (1 + 2 * T) + z * M + k * (2 * (Z + 1)).
Proof.
  intros n x E b l g mu mu' out e s c T z M k Z N C HE L S G HT MU O.
  assert (SE : 0 < Sum n E) by (apply Sum_positive; [exact N | intros j J; apply HE, J]).
  set (f := fun j => exp (x j - b)).
  assert (SF : 0 < Sum n f) by (apply Sum_positive; [exact N | intros; apply exp_pos]).
  assert (SX : Sum n (fun j => exp (x j)) = exp b * Sum n f).
  { rewrite <- Sum_scale. apply Sum_ext. intros j _. unfold f. rewrite <- exp_plus. f_equal. ring. }
  assert (X : ln (Sum n (fun j => exp (x j))) = b + ln (Sum n f)).
  { rewrite SX, ln_mult, ln_exp by (try apply exp_pos; exact SF). reflexivity. }
  assert (P : forall y Y : nat -> R, (forall j, (j < n)%nat -> y j <= exp e * Y j) -> Sum n y <= exp e * Sum n Y).
  { intros y Y H. rewrite <- Sum_scale. apply Sum_le. exact H. }
  assert (A : Sum n E <= exp e * Sum n f).
  { apply P. intros j J. destruct (HE j J) as (E0 & HJ). rewrite <- (exp_ln (E j)) by exact E0. apply exp_moved. exact HJ. }
  assert (B : Sum n f <= exp e * Sum n E).
  { apply P. intros j J. destruct (HE j J) as (E0 & HJ). rewrite <- (exp_ln (E j)) by exact E0. apply exp_moved.
    rewrite Rabs_minus_sym. exact HJ. }
  assert (Q : Rabs (ln (Sum n E) - ln (Sum n f)) <= e).
  { assert (LA := ln_monotone _ _ SE A). assert (LB := ln_monotone _ _ SF B).
    rewrite ln_mult, ln_exp in LA, LB by (try apply exp_pos; assumption). apply Rabs_le. lra. }
  unfold Rdiv in S. rewrite ln_mult, ln_Rinv in S by (try apply Rinv_0_lt_compat; assumption).
  assert (c * (1 + Rabs (ln l)) <= c * (1 + 2 * T)) by (apply Rmult_le_compat_l; lra).
  rewrite X. apply Rabs_le_inv in S, G, MU, O, Q. apply Rabs_le. lra.
Qed.

(** * Operands *)

Definition norm2 m (a : nat -> R) := sqrt (Sum m (fun k => a k * a k)).

Lemma norm2_positive : forall m a, 0 <= norm2 m a.
Proof. intros. apply sqrt_pos. Qed.

Lemma Sum_squares : forall m a, 0 <= Sum m (fun k => a k * a k).
Proof. induction m as [| m IH]; intro a; simpl; [lra |]. assert (H := IH a). assert (0 <= a m * a m) by apply Rle_0_sqr. lra. Qed.

Lemma norm2_squared : forall m a, norm2 m a * norm2 m a = Sum m (fun k => a k * a k).
Proof. intros. apply sqrt_sqrt. apply Sum_squares. Qed.

Lemma dot_below_norms : forall m a b, Rabs (Sum m (fun k => a k * b k)) <= norm2 m a * norm2 m b.
Proof.
  intros m a b. apply Rsqr_incr_0_var; [| apply Rmult_le_pos; apply norm2_positive].
  rewrite <- Rsqr_abs. unfold Rsqr. eapply Rle_trans. apply (cauchy_schwarz m a b).
  replace (norm2 m a * norm2 m b * (norm2 m a * norm2 m b)) with (norm2 m a * norm2 m a * (norm2 m b * norm2 m b)) by ring.
  rewrite !norm2_squared. lra.
Qed.

Lemma norm2_triangle : forall m a b, norm2 m (fun k => a k + b k) <= norm2 m a + norm2 m b.
Proof.
  intros m a b. assert (A := norm2_positive m a). assert (B := norm2_positive m b).
  apply Rsqr_incr_0_var; [| lra]. unfold Rsqr. rewrite norm2_squared.
  rewrite (Sum_ext m _ (fun k => a k * a k + b k * b k + 2 * (a k * b k))) by (intros; ring).
  rewrite !Sum_plus, Sum_scale, <- !norm2_squared.
  assert (D := dot_below_norms m a b). apply Rabs_le_inv in D. lra.
Qed.

Lemma norm2_monotone : forall m a b, (forall k, (k < m)%nat -> Rabs (a k) <= b k) -> norm2 m a <= norm2 m b.
Proof.
  intros m a b H. apply sqrt_le_1_alt. apply Sum_le. intros k K. specialize (H k K).
  replace (a k * a k) with (Rabs (a k) * Rabs (a k)) by (rewrite <- Rabs_mult; apply Rabs_right, Rle_ge, Rle_0_sqr).
  apply Rmult_le_compat; try apply Rabs_pos; assumption.
Qed.

Lemma norm2_scaled : forall m c a, 0 <= c -> norm2 m (fun k => c * a k) = c * norm2 m a.
Proof.
  intros m c a C. unfold norm2. rewrite (Sum_ext m _ (fun k => (c * c) * (a k * a k))) by (intros; ring).
  rewrite Sum_scale, sqrt_mult_alt, sqrt_square by (try apply Rmult_le_pos; assumption). reflexivity.
Qed.

Lemma norm2_abs : forall m a, norm2 m (fun k => Rabs (a k)) = norm2 m a.
Proof.
  intros. unfold norm2. f_equal. apply Sum_ext. intros. rewrite <- Rabs_mult. apply Rabs_right, Rle_ge, Rle_0_sqr.
Qed.

Lemma Sum_constant : forall m f, Sum m (fun _ => f) = INR m * f.
Proof. induction m as [| m IH]; intro f; [simpl; ring |]. rewrite S_INR. simpl. rewrite IH. ring. Qed.

(** What a number is from its code times its scale, by the code: a 16th of it, where the number has
    a 17th of itself. Norms are measured of codes. *)
Theorem operand_of_code :
  forall x s z, 0 < s -> Rabs (z - x / s) <= path 3 * Rabs (x / s) -> Rabs z <= 464 ->
  Rabs (x - s * code z) <= (/ 16 + path 4) * Rabs (s * code z) + s * tiny * (1 + path 4).
Proof.
  intros x s z Hs Hz H4. assert (U := u_positive). assert (U1 : u <= / 1000) by (unfold u, prec; simpl; lra).
  set (q := code z). assert (E := code_half_unit z H4). fold q in E.
  assert (H := half_unit_of_code q).
  set (h := Rmax (Rabs q / 16) tiny) in *.
  assert (h0 : h <= Rabs q / 16 + tiny).
  { unfold h, Rmax. assert (0 <= Rabs q) by apply Rabs_pos. assert (0 <= tiny) by (unfold tiny; lra). destruct Rle_dec; lra. }
  assert (Q0 : 0 <= Rabs q) by apply Rabs_pos.
  assert (hp : 0 <= h) by (apply Rle_trans with tiny; [unfold tiny; lra | apply Rmax_r]).
  assert (Z : Rabs (x / s) <= Rabs z + path 3 * Rabs (x / s)).
  { replace (x / s) with (z - (z - x / s)) at 1 by ring. unfold Rminus at 1. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra. }
  assert (ZQ : Rabs z <= Rabs q + h).
  { replace z with (q + - (q - z)) by ring. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra. }
  assert (P3 : path 3 = 3 * u + 3 * (u * u) + u * (u * u)) by (unfold path; simpl; ring).
  assert (P4 : path 4 = 4 * u + 6 * (u * u) + 4 * (u * (u * u)) + u * u * (u * u)) by (unfold path; simpl; ring).
  assert (UU : 0 <= u * u <= / 1000 * u) by (split; [apply Rmult_le_pos; lra | apply Rmult_le_compat_r; lra]).
  assert (UUU : 0 <= u * (u * u) <= / 1000 * u).
  { split; [apply Rmult_le_pos; lra |]. eapply Rle_trans. apply Rmult_le_compat_l with (r2 := / 1000 * u); lra. lra. }
  assert (U4 : 0 <= u * u * (u * u)) by (apply Rmult_le_pos; lra).
  set (y := Rabs (x / s)) in *. assert (Y0 : 0 <= y) by apply Rabs_pos.
  assert (Py : path 3 * y <= (32 / 10) * u * (Rabs q + h)).
  { assert (P3u : 0 <= path 3 <= 301 / 100 * u) by (rewrite P3; lra).
    assert (small : path 3 <= / 100) by lra.
    assert (yb : y <= 102 / 100 * (Rabs q + h)).
    { assert (path 3 * y <= / 100 * y) by (apply Rmult_le_compat_r; lra). lra. }
    apply Rle_trans with (301 / 100 * u * y); [apply Rmult_le_compat_r; lra |].
    apply Rle_trans with (301 / 100 * u * (102 / 100 * (Rabs q + h))).
    - apply Rmult_le_compat_l; lra.
    - assert (0 <= u * (Rabs q + h)) by (apply Rmult_le_pos; lra). lra. }
  assert (T : Rabs (x / s - q) <= h + path 3 * y).
  { replace (x / s - q) with (- (q - z) + - (z - x / s)) by ring. eapply Rle_trans. apply Rabs_triang. rewrite !Rabs_Ropp. lra. }
  assert (W : Rabs (x / s - q) <= (/ 16 + path 4) * Rabs q + tiny * (1 + path 4)).
  { assert (t0 : 0 <= tiny) by (unfold tiny; lra).
    assert (P4l : 4 * u <= path 4) by (rewrite P4; lra).
    assert (uh : u * h <= u * (Rabs q / 16 + tiny)) by (apply Rmult_le_compat_l; lra).
    assert (4 * u * Rabs q <= path 4 * Rabs q) by (apply Rmult_le_compat_r; lra).
    assert (4 * u * tiny <= path 4 * tiny) by (apply Rmult_le_compat_r; lra).
    assert (0 <= u * Rabs q) by (apply Rmult_le_pos; lra). assert (0 <= u * tiny) by (apply Rmult_le_pos; lra). lra. }
  replace (x - s * q) with (s * (x / s - q)) by (field; lra).
  rewrite !Rabs_mult, (Rabs_right s) by lra.
  replace ((/ 16 + path 4) * (s * Rabs q) + s * tiny * (1 + path 4)) with (s * ((/ 16 + path 4) * Rabs q + tiny * (1 + path 4))) by ring.
  apply Rmult_le_compat_l; lra.
Qed.

(** A row of such numbers; r is the root of their count. *)
Theorem norm_of_codes :
  forall m x y e f r, 0 <= e -> 0 <= f -> 0 <= r -> INR m <= r * r ->
  (forall k, (k < m)%nat -> Rabs (x k - y k) <= e * Rabs (y k) + f) ->
  norm2 m (fun k => x k - y k) <= e * norm2 m y + r * f.
Proof.
  intros m x y e f r He Hf Hr M H.
  eapply Rle_trans. apply (norm2_monotone m _ (fun k => e * Rabs (y k) + f)). exact H.
  eapply Rle_trans. apply (norm2_triangle m (fun k => e * Rabs (y k)) (fun _ => f)).
  rewrite norm2_scaled, norm2_abs by exact He. apply Rplus_le_compat_l.
  unfold norm2. rewrite Sum_constant.
  rewrite <- (sqrt_square (r * f)) by (apply Rmult_le_pos; assumption). apply sqrt_le_1_alt.
  replace (r * f * (r * f)) with (r * r * (f * f)) by ring. apply Rmult_le_compat_r; [apply Rmult_le_pos; assumption | exact M].
Qed.

(** Two rows that are each off: their dot. *)
Theorem operands_moved :
  forall m x x' y y' X Y r s t, 0 <= r -> 0 <= s -> 0 <= t ->
  norm2 m x' <= X -> norm2 m y' <= Y ->
  norm2 m (fun k => x k - x' k) <= r * X + t -> norm2 m (fun k => y k - y' k) <= s * Y + t ->
  Rabs (Sum m (fun k => x k * y k) - Sum m (fun k => x' k * y' k)) <=
    X * Y * (r + s + r * s) + t * (X * (1 + r) + Y * (1 + s) + t).
Proof.
  intros m x x' y y' X Y r s t Hr Hs Ht HX HY DX DY.
  set (a := fun k => x k - x' k) in *. set (b := fun k => y k - y' k) in *.
  rewrite <- Sum_minus.
  rewrite (Sum_ext m _ (fun k => a k * y' k + (x' k * b k + a k * b k))) by (intros; unfold a, b; ring).
  rewrite !Sum_plus.
  assert (A := norm2_positive m a). assert (B := norm2_positive m b).
  assert (A' := norm2_positive m x'). assert (B' := norm2_positive m y').
  assert (rX : 0 <= r * X) by (apply Rmult_le_pos; lra). assert (sY : 0 <= s * Y) by (apply Rmult_le_pos; lra).
  assert (N1 : Rabs (Sum m (fun k => a k * y' k)) <= (r * X + t) * Y).
  { eapply Rle_trans. apply dot_below_norms. apply Rmult_le_compat; lra. }
  assert (N2 : Rabs (Sum m (fun k => x' k * b k)) <= X * (s * Y + t)).
  { eapply Rle_trans. apply dot_below_norms. apply Rmult_le_compat; lra. }
  assert (N3 : Rabs (Sum m (fun k => a k * b k)) <= (r * X + t) * (s * Y + t)).
  { eapply Rle_trans. apply dot_below_norms. apply Rmult_le_compat; lra. }
  eapply Rle_trans. apply Rabs_triang.
  assert (Q := Rabs_triang (Sum m (fun k => x' k * b k)) (Sum m (fun k => a k * b k))).
  replace (X * Y * (r + s + r * s) + t * (X * (1 + r) + Y * (1 + s) + t))
    with ((r * X + t) * Y + (X * (s * Y + t) + (r * X + t) * (s * Y + t))) by ring. lra.
Qed.

(** * Weights *)

(** The forward's P where O is divided by the sum of its codes: shares off by q, codes by c in all,
    the sum of the codes and its reciprocal by nu. The share p may be exact or the backward's. *)
Theorem weights_of_codes :
  forall n e w p P' q c nu nu',
  0 <= q -> 0 <= c < 1 -> 0 <= nu -> Sum n e = 1 -> (forall j, (j < n)%nat -> 0 <= w j) -> 0 < Sum n w ->
  Sum n (fun j => Rabs (w j - e j)) <= c -> Sum n (fun j => Rabs (e j - p j)) <= q -> Rabs nu' <= nu ->
  (forall j, (j < n)%nat -> P' j = w j * (1 + nu') / Sum n w) ->
  Sum n (fun j => Rabs (P' j - p j)) <= (1 + q) * ((1 + c) * (1 + inverse c)) * (1 + nu) - 1.
Proof.
  intros n e w p P' q c nu nu' Hq (C0 & C1) Hnu E W SW HC HQ HN HP.
  set (Z := Sum n w) in *.
  assert (D : Rabs (Z - 1) <= c).
  { unfold Z. rewrite <- E, <- Sum_minus. eapply Rle_trans. apply Sum_abs. exact HC. }
  assert (A : Sum n (fun j => Rabs (P' j - w j)) = Rabs (1 + nu' - Z)).
  { rewrite (Sum_ext n _ (fun j => Rabs ((1 + nu' - Z) / Z) * w j)).
    - rewrite Sum_scale. fold Z. unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ Z)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; exact SW). field. lra.
    - intros j J. rewrite HP by exact J. rewrite <- (Rabs_right (w j)) at 3 by (apply Rle_ge, W, J). rewrite <- Rabs_mult. f_equal. field. lra. }
  assert (B : Rabs (1 + nu' - Z) <= nu + c).
  { replace (1 + nu' - Z) with (nu' + - (Z - 1)) by ring. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. lra. }
  assert (T : Sum n (fun j => Rabs (P' j - p j)) <=
    Sum n (fun j => Rabs (P' j - w j)) + (Sum n (fun j => Rabs (w j - e j)) + Sum n (fun j => Rabs (e j - p j)))).
  { rewrite <- !Sum_plus. apply Sum_le. intros j _.
    replace (P' j - p j) with ((P' j - w j) + ((w j - e j) + (e j - p j))) by ring.
    eapply Rle_trans. apply Rabs_triang. apply Rplus_le_compat_l. apply Rabs_triang. }
  assert (I : 1 + 2 * c <= (1 + c) * (1 + inverse c)).
  { unfold inverse. replace (1 + c / (1 - c)) with (/ (1 - c)) by (field; lra).
    apply Rmult_le_reg_r with (1 - c); [lra |]. rewrite Rmult_assoc, Rinv_l by lra.
    assert (0 <= c * c) by (apply Rmult_le_pos; lra). lra. }
  set (k := (1 + c) * (1 + inverse c)) in *.
  assert (0 <= q * (k - 1)) by (apply Rmult_le_pos; lra).
  assert (0 <= ((1 + q) * k - 1) * nu) by (apply Rmult_le_pos; lra).
  replace ((1 + q) * k * (1 + nu) - 1) with (q + (k - 1) + nu + q * (k - 1) + ((1 + q) * k - 1) * nu) by ring. lra.
Qed.

(** * delta of the row itself *)

(** matched: P off by w in all, dP by x, the sum by g and t; k is what shift and product round. *)
Theorem delta_of_row :
  forall n p P d d' delta out w x g t k G,
  0 <= g -> 0 <= G -> 0 <= x -> (forall j, (j < n)%nat -> 0 <= p j) -> Sum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (d' j) <= G /\ Rabs (d j - d' j) <= x) ->
  Sum n (fun j => Rabs (P j - p j)) <= w ->
  Rabs (delta - Sum n (fun j => P j * d j)) <= g * Sum n (fun j => Rabs (P j) * Rabs (d j)) + t ->
  Rabs (out - delta) <= k * (G + x) ->
  Rabs (out - Sum n (fun j => p j * d' j)) <= (G + x) * ((1 + w) * (1 + g) - 1) + x + k * (G + x) + t.
Proof.
  intros n p P d d' delta out w x g t k G Hg HG Hx Hp S Hd W D O.
  assert (Sp : Sum n (fun j => Rabs (p j)) = 1).
  { rewrite <- S. apply Sum_ext. intros j J. apply Rabs_right, Rle_ge, Hp, J. }
  assert (L := Sum_triangle n P p). rewrite Sp in L.
  assert (Hs : forall j, (j < n)%nat -> Rabs (d j) <= G + x).
  { intros j J. destruct (Hd j J) as (A & B). replace (d j) with (d' j + (d j - d' j)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (M : Sum n (fun j => Rabs (P j) * Rabs (d j)) <= (1 + w) * (G + x)).
  { apply Rle_trans with (Sum n (fun j => (G + x) * Rabs (P j))).
    - apply Sum_le. intros j J. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | apply Hs, J].
    - rewrite Sum_scale, Rmult_comm. apply Rmult_le_compat_r; lra. }
  assert (A : Rabs (Sum n (fun j => P j * d j) - Sum n (fun j => p j * d j)) <= w * (G + x)).
  { rewrite <- Sum_minus. rewrite (Sum_ext n _ (fun j => (P j - p j) * d j)) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted n (fun j => P j - p j) d (G + x)); [lra | exact Hs]. apply Rmult_le_compat_r; lra. }
  assert (B : Rabs (Sum n (fun j => p j * d j) - Sum n (fun j => p j * d' j)) <= x).
  { rewrite <- Sum_minus. rewrite (Sum_ext n _ (fun j => p j * (d j - d' j))) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted n p _ x Hx). intros j J. apply Hd, J. rewrite Sp. lra. }
  assert (gM : g * Sum n (fun j => Rabs (P j) * Rabs (d j)) <= g * ((1 + w) * (G + x))) by (apply Rmult_le_compat_l; assumption).
  set (a := Sum n (fun j => P j * d j)) in *. set (b := Sum n (fun j => p j * d j)) in *. set (c := Sum n (fun j => p j * d' j)) in *.
  replace ((G + x) * ((1 + w) * (1 + g) - 1)) with (g * ((1 + w) * (G + x)) + w * (G + x)) by ring.
  apply Rabs_le_inv in O, D, A, B. apply Rabs_le. lra.
Qed.

(** renormalized and shifted: a quotient of two sums over P, d0 taken off first and added at the end.
    Twice would do; three is what the code has. *)
Theorem delta_of_quotient :
  forall n p P d d' d0 lo out w x g h t k G,
  0 <= g -> 0 <= h -> 0 <= G -> 0 <= x -> (forall j, (j < n)%nat -> 0 <= p j /\ 0 <= P j) -> Sum n p = 1 -> 0 < Sum n P ->
  (forall j, (j < n)%nat -> Rabs (d' j) <= G /\ Rabs (d j - d' j) <= x) -> Rabs d0 <= G + x ->
  Sum n (fun j => Rabs (P j - p j)) <= w ->
  Rabs (Sum n (fun j => P j * (d j - d0)) - lo * Sum n P) <=
    ((1 + g) * (1 + h) - 1) * Sum n (fun j => P j * Rabs (d j - d0)) + t * Sum n P ->
  Rabs (out - (d0 + lo)) <= k * (3 * (G + x)) ->
  Rabs (out - Sum n (fun j => p j * d' j)) <=
    3 * (G + x) * ((1 + w) * (1 + g) * (1 + h) - 1) + 3 * x + k * (3 * (G + x)) + t.
Proof.
  intros n p P d d' d0 lo out w x g h t k G Hg Hh HG Hx Hp S B0 Hd H0 W Q O.
  set (B := Sum n P) in *.
  assert (Hs : forall j, (j < n)%nat -> Rabs (d j) <= G + x).
  { intros j J. destruct (Hd j J) as (A & C). replace (d j) with (d' j + (d j - d' j)) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (W1 : Rabs (B - 1) <= w).
  { unfold B. rewrite <- S, <- Sum_minus. eapply Rle_trans. apply Sum_abs. exact W. }
  assert (w0 : 0 <= w) by (assert (R := Rabs_pos (B - 1)); lra).
  (* the share of the row that P has of B *)
  assert (D2 : Rabs (Sum n (fun j => P j * d j) / B - Sum n (fun j => p j * d j)) <= 2 * w * (G + x)).
  { replace (Sum n (fun j => P j * d j) / B) with (Sum n (fun j => P j / B * d j)).
    2: { unfold Rdiv at 2. rewrite Rmult_comm, <- Sum_scale. apply Sum_ext. intros. field. lra. }
    rewrite <- Sum_minus. rewrite (Sum_ext n _ (fun j => (P j / B - p j) * d j)) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted n (fun j => P j / B - p j) d (G + x)); [lra | exact Hs].
    apply Rmult_le_compat_r; [lra |].
    apply Rle_trans with (Sum n (fun j => Rabs (P j / B - P j)) + Sum n (fun j => Rabs (P j - p j))).
    - rewrite <- Sum_plus. apply Sum_le. intros j _. replace (P j / B - p j) with ((P j / B - P j) + (P j - p j)) by ring. apply Rabs_triang.
    - assert (E : Sum n (fun j => Rabs (P j / B - P j)) = Rabs (B - 1)).
      { rewrite (Sum_ext n _ (fun j => Rabs ((1 - B) / B) * P j)).
        - rewrite Sum_scale. fold B. unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ B)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; exact B0).
          rewrite Rabs_minus_sym. field. lra.
        - intros j J. rewrite <- (Rabs_right (P j)) at 3 by (apply Rle_ge; apply Hp, J). rewrite <- Rabs_mult. f_equal. field. lra. }
      lra. }
  assert (D1 : Rabs (Sum n (fun j => p j * d j) - Sum n (fun j => p j * d' j)) <= x).
  { rewrite <- Sum_minus. rewrite (Sum_ext n _ (fun j => p j * (d j - d' j))) by (intros; ring).
    eapply Rle_trans. apply (Sum_weighted n p _ x Hx). intros j J. apply Hd, J.
    replace (Sum n (fun j => Rabs (p j))) with 1; [lra |]. rewrite <- S. apply Sum_ext. intros j J. symmetry. apply Rabs_right, Rle_ge. apply Hp, J. }
  (* what the quotient misses *)
  assert (M : Sum n (fun j => P j * Rabs (d j - d0)) <= 2 * (G + x) * B).
  { unfold B. rewrite <- Sum_scale. apply Sum_le. intros j J. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Hp, J |].
    replace (d j - d0) with (d j + - d0) by ring. eapply Rle_trans. apply Rabs_triang. rewrite Rabs_Ropp. assert (Z := Hs j J). lra. }
  set (c := (1 + g) * (1 + h) - 1) in *.
  assert (c0 : 0 <= c) by (unfold c; assert (0 <= g * h) by (apply Rmult_le_pos; lra); lra).
  assert (X : Sum n (fun j => P j * (d j - d0)) = Sum n (fun j => P j * d j) - d0 * B).
  { unfold B. rewrite <- Sum_scale, <- Sum_minus. apply Sum_ext. intros. ring. }
  rewrite X in Q.
  assert (D3 : Rabs (Sum n (fun j => P j * d j) / B - (d0 + lo)) <= c * (2 * (G + x)) + t).
  { apply Rmult_le_reg_r with B; [exact B0 |].
    replace (Rabs (Sum n (fun j => P j * d j) / B - (d0 + lo)) * B) with (Rabs (Sum n (fun j => P j * d j) - d0 * B - lo * B)).
    - eapply Rle_trans. exact Q. assert (c * Sum n (fun j => P j * Rabs (d j - d0)) <= c * (2 * (G + x) * B)) by (apply Rmult_le_compat_l; assumption). lra.
    - assert (E : forall z, Rabs z * B = Rabs (z * B)) by (intro z; rewrite Rabs_mult, (Rabs_right B); lra).
      rewrite E. f_equal. field. lra. }
  assert (wc : 0 <= w * c) by (apply Rmult_le_pos; assumption).
  assert (K : 2 * w * (G + x) + c * (2 * (G + x)) <= 3 * (G + x) * ((1 + w) * (1 + g) * (1 + h) - 1)).
  { replace ((1 + w) * (1 + g) * (1 + h) - 1) with (w + c + w * c) by (unfold c; ring).
    assert (0 <= (G + x) * (w + c)) by (apply Rmult_le_pos; lra). assert (0 <= (G + x) * (w * c)) by (apply Rmult_le_pos; lra). lra. }
  apply Rabs_le_inv in O, D1, D2, D3. apply Rabs_le. lra.
Qed.

(** * Casts of a row *)

(** zero-sum: a code is off by the carry that it was given and the one that it leaves. *)
Theorem carried_element :
  forall x c s d C r,
  0 < s -> Rabs c <= C -> Rabs (carried c x) <= C -> Rabs (rnd (x + c) - (x + c)) <= r ->
  Rabs (s * x - d) <= path 4 * Rabs d ->
  Rabs (s * code (rnd (x + c)) - d) <= s * (2 * C + r) + path 4 * Rabs d.
Proof.
  intros x c s d C r Hs HC HC' HR HX. unfold carried in HC'.
  assert (T : Rabs (code (rnd (x + c)) - x) <= 2 * C + r).
  { apply Rabs_le_inv in HC, HC', HR. apply Rabs_le. lra. }
  replace (s * code (rnd (x + c)) - d) with (s * (code (rnd (x + c)) - x) + (s * x - d)) by ring.
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult, (Rabs_right s) by lra.
  assert (s * Rabs (code (rnd (x + c)) - x) <= s * (2 * C + r)) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** All elements of a row: a carry is at most a share a of its argument, or f. *)
Theorem carried_row :
  forall n x q c a f r X,
  0 <= a < 1 -> 0 <= f -> 0 <= r -> c 0%nat = 0 ->
  (forall j, (j < n)%nat -> Rabs (c (S j)) <= a * (Rabs (x j) + Rabs (c j)) + f) ->
  (forall j, (j < n)%nat -> Rabs (q j - x j) <= Rabs (c (S j)) + Rabs (c j) + r * (Rabs (x j) + Rabs (c j))) ->
  Sum n (fun j => Rabs (x j)) <= X ->
  Sum n (fun j => Rabs (q j - x j)) <= (2 + r) * ((a * X + INR n * f) / (1 - a)) + r * X.
Proof.
  intros n x q c a f r X (A0 & A1) F0 R0 C0 HC HQ HX.
  set (K := Sum n (fun j => Rabs (c j))). set (L := Sum n (fun j => Rabs (c (S j)))).
  assert (KL : K <= L).
  { unfold K, L. assert (E : forall i, Sum i (fun j => Rabs (c (S j))) = Sum i (fun j => Rabs (c j)) + Rabs (c i)).
    { induction i as [| i IH]; cbn [Sum]; [rewrite C0, Rabs_R0; ring | rewrite IH; ring]. }
    rewrite E. assert (P := Rabs_pos (c n)). lra. }
  assert (H : L <= a * (X + K) + INR n * f).
  { unfold L. eapply Rle_trans. apply Sum_le. exact HC. rewrite Sum_plus, Sum_scale, Sum_plus, Sum_constant. fold K.
    assert (a * (Sum n (fun j => Rabs (x j)) + K) <= a * (X + K)) by (apply Rmult_le_compat_l; lra). lra. }
  assert (B : L <= (a * X + INR n * f) / (1 - a)).
  { apply Rmult_le_reg_r with (1 - a); [lra |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (a * K <= a * L) by (apply Rmult_le_compat_l; lra). lra. }
  eapply Rle_trans. apply Sum_le. exact HQ.
  rewrite !Sum_plus, Sum_scale, Sum_plus. fold K L.
  assert (r * (Sum n (fun j => Rabs (x j)) + K) <= r * (X + (a * X + INR n * f) / (1 - a))) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** * Row sums of a delta that reads the output *)

(** With the sizes that the steps really have: O after its sum and its store, delta after its dot; and
    with underflow, t1 of the sum, t2 of the store, td of the dot. Consistent: dO is the operand and
    g = 0; associated: P' is P, w = 0, and O is O32, b = t2 = 0. *)
Theorem from_output_closed :
  forall n m (P P' dP dS dO dO' O O32 : nat -> R) Vf Vb delta a b c nb w g x e V L s G t1 t2 td,
  0 <= V -> 0 <= G -> 0 <= x -> 0 <= a -> 0 <= b -> 0 <= c -> 0 <= L -> 0 <= t1 -> 0 <= t2 -> 0 <= s ->
  (forall j k, (j < n)%nat -> (k < m)%nat -> Vb j k = Vf j k /\ Rabs (Vf j k) <= V) ->
  Sum n (fun j => Rabs (P j)) <= L -> Sum n (fun j => Rabs (P' j)) <= L ->
  Sum n (fun j => Rabs (P j - P' j)) <= w ->
  (forall j, (j < n)%nat -> Rabs (dP_exact m dO' Vb j) <= G /\ Rabs (dP j - dP_exact m dO' Vb j) <= x) ->
  Sum m (fun k => Rabs (dO k)) <= s -> Sum m (fun k => Rabs (dO' k - dO k)) <= g ->
  (forall k, (k < m)%nat -> Rabs (O32 k - O_exact n P' Vf k) <= a * (V * L) + t1 /\ Rabs (O k - O32 k) <= b * Rabs (O32 k) + t2) ->
  Rabs (delta - Sum m (fun k => dO k * O k)) <= c * Sum m (fun k => Rabs (dO k) * Rabs (O k)) + td ->
  Rabs (1 - B_row n P) <= nb -> Rabs (elem n P dP dS delta) <= e ->
  Rabs (R_row n dS) <=
    w * G + g * (V * L) + a * (s * (V * L)) + b * (s * (V * L * (1 + a))) +
    c * (s * (V * L * (1 + a) * (1 + b))) + nb * (s * (V * L * (1 + a) * (1 + b)) * (1 + c)) + L * x + e +
    (s * (t1 * (1 + b) + t2) * (1 + c) + td) * (1 + nb).
Proof.
  intros n m P P' dP dS dO dO' O O32 Vf Vb delta a b c nb w g x e V L s G t1 t2 td
    HV HG Hx Ha Hb Hc HL H1 H2 Hs0 HVV SP SP' W HD HS HGr HO HDot HB HE.
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
  set (Z := V * L * (1 + a) + t1).
  assert (aVL : 0 <= a * (V * L)) by (apply Rmult_le_pos; lra).
  assert (Z0 : 0 <= Z) by (unfold Z; lra).
  assert (O3 : forall k, (k < m)%nat -> Rabs (O32 k) <= Z).
  { intros k K. destruct (HO k K) as (A & _). assert (B := OX k K).
    replace (O32 k) with (O_exact n P' Vf k + (O32 k - O_exact n P' Vf k)) by ring. eapply Rle_trans. apply Rabs_triang. unfold Z. lra. }
  assert (bZ : 0 <= b * Z) by (apply Rmult_le_pos; assumption).
  assert (OS : forall k, (k < m)%nat -> Rabs (O k - O32 k) <= b * Z + t2).
  { intros k K. destruct (HO k K) as (_ & A). assert (b * Rabs (O32 k) <= b * Z) by (apply Rmult_le_compat_l; [exact Hb | apply O3, K]). lra. }
  set (Y := Z + (b * Z + t2)).
  assert (OY : forall k, (k < m)%nat -> Rabs (O k) <= Y).
  { intros k K. replace (O k) with (O32 k + (O k - O32 k)) by ring. eapply Rle_trans. apply Rabs_triang.
    assert (A := O3 k K). assert (B := OS k K). unfold Y. lra. }
  assert (Y0 : 0 <= Y) by (unfold Y; lra).
  assert (Ta : Rabs (acc n m P' dO O32 Vf) <= s * (a * (V * L) + t1)).
  { unfold acc. rewrite Rabs_Ropp. apply Wd; [lra | intros k K; apply HO, K]. }
  assert (To : Rabs (out m dO O O32) <= s * (b * Z + t2)).
  { unfold out. rewrite Rabs_Ropp. apply Wd; [lra | exact OS]. }
  assert (Dm : Sum m (fun k => Rabs (dO k) * Rabs (O k)) <= s * Y).
  { apply Rle_trans with (Sum m (fun k => Y * Rabs (dO k))).
    - apply Sum_le. intros k K. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos | apply OY, K].
    - rewrite Sum_scale, Rmult_comm. apply Rmult_le_compat_r; assumption. }
  assert (cD : c * Sum m (fun k => Rabs (dO k) * Rabs (O k)) <= c * (s * Y)) by (apply Rmult_le_compat_l; assumption).
  assert (Td : Rabs (dot m dO O delta) <= c * (s * Y) + td) by (unfold dot; rewrite Rabs_Ropp; lra).
  assert (DO : Rabs (Sum m (fun k => dO k * O k)) <= s * Y) by (apply Wd; assumption).
  assert (DEL : Rabs delta <= s * Y * (1 + c) + td).
  { replace delta with (Sum m (fun k => dO k * O k) + (delta - Sum m (fun k => dO k * O k))) by ring. eapply Rle_trans. apply Rabs_triang. lra. }
  assert (Tn : Rabs (norm n P delta) <= (s * Y * (1 + c) + td) * nb).
  { unfold norm. rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; assumption. }
  assert (Tx : Rabs (accdP n m P dP dO' Vb) <= L * x).
  { unfold accdP. eapply Rle_trans. apply (Sum_weighted n P _ x Hx). intros j J. apply HD, J. apply Rmult_le_compat_r; lra. }
  rewrite Tv.
  apply Rabs_le_inv in Tprob, Tg, Ta, To, Td, Tn, Tx, HE.
  replace (w * G + g * (V * L) + a * (s * (V * L)) + b * (s * (V * L * (1 + a))) +
    c * (s * (V * L * (1 + a) * (1 + b))) + nb * (s * (V * L * (1 + a) * (1 + b)) * (1 + c)) + L * x + e +
    (s * (t1 * (1 + b) + t2) * (1 + c) + td) * (1 + nb))
    with (w * G + g * (V * L) + s * (a * (V * L) + t1) + s * (b * Z + t2) + (c * (s * Y) + td) +
      (s * Y * (1 + c) + td) * nb + L * x + e) by (unfold Y, Z; ring).
  apply Rabs_le. lra.
Qed.
