(** A row of dS from the operands to its bound, for the other deltas: associated, matched,
    renormalized, shifted; and the row after its cast. Sections 1 to 4.

    As in EndToEnd: nothing is assumed of an error, every order of each sum, with underflow. *)
Require Import Reals Lra Lia List Permutation.
From Flocq Require Import Core.
From dmverify Require Import Binary32 Sums Inner Rows Stores Casts Known Ledger Probability Coded Rounding Windows Casting Kernel Shares EndToEnd.
Open Scope R_scope.

(** associated: P is the code's share, rounded twice. *)
Lemma rounded_twice : forall w row, 0 <= w -> 1 <= row ->
  Rabs (rnd (rnd w / row) - w / row) <= path 2 * (w / row) + 2 * eta.
Proof.
  intros w row W R. assert (U := u_small). assert (P := eta_positive).
  assert (I : 0 < / row) by (apply Rinv_0_lt_compat; lra). assert (I1 : / row <= 1) by (rewrite <- Rinv_1; apply Rinv_le; lra).
  assert (P2 : path 2 = 2 * u + u * u) by (unfold path; ring).
  assert (W' : 0 <= rnd w) by (rewrite <- rnd_0; apply rnd_le, W).
  assert (Q : 0 <= w / row) by (apply Rmult_le_pos; lra). assert (Q' : 0 <= rnd w / row) by (apply Rmult_le_pos; lra).
  replace (rnd (rnd w / row) - w / row) with ((rnd (rnd w / row) - rnd w / row) + (rnd w - w) * / row) by (unfold Rdiv; ring).
  eapply Rle_trans. apply Rabs_triang. rewrite Rabs_mult, (Rabs_right (/ row)) by lra.
  assert (B : bpow radix2 (emin + prec - 1) = bpow radix2 (- 126)) by reflexivity.
  destruct (Rle_or_lt (bpow radix2 (emin + prec - 1)) w) as [N | S].
  - destruct (rounding_error w) as (E & _); [rewrite Rabs_right; lra |]. rewrite (Rabs_right w) in E by lra.
    assert (F := rnd_error (rnd w / row)). rewrite (Rabs_right (rnd w / row)) in F by lra.
    assert (X : Rabs (rnd w - w) * / row <= u * (w / row)).
    { replace (u * (w / row)) with (u * w * / row) by (unfold Rdiv; ring). apply Rmult_le_compat_r; lra. }
    assert (Y : rnd w / row <= (1 + u) * (w / row)).
    { replace ((1 + u) * (w / row)) with ((1 + u) * w * / row) by (unfold Rdiv; ring). unfold Rdiv. apply Rmult_le_compat_r; [lra |].
      apply Rabs_le_inv in E. lra. }
    assert (u * (rnd w / row) <= u * ((1 + u) * (w / row))) by (apply Rmult_le_compat_l; lra). rewrite P2. lra.
  - assert (H : forall x, 0 <= x -> x <= bpow radix2 (emin + prec - 1) -> Rabs (rnd x - x) <= eta).
    { intros x X L. assert (E : Rabs (rnd x - x) <= / 2 * ulp radix2 fexp x) by apply (error_le_half_ulp radix2 fexp (fun z => negb (Z.even z)) x).
      unfold fexp in E. rewrite ulp_FLT_small in E; [exact E | apply prec_positive |].
      rewrite Rabs_right by lra. eapply Rle_lt_trans. exact L. apply bpow_lt. lia. }
    assert (E := H w W ltac:(lra)).
    assert (L : rnd w <= bpow radix2 (emin + prec - 1)).
    { apply rnd_below; [apply format_power; unfold emin, prec; lia | lra]. }
    assert (L' : rnd w / row <= bpow radix2 (emin + prec - 1)).
    { apply Rle_trans with (rnd w * 1); [unfold Rdiv; apply Rmult_le_compat_l; lra | lra]. }
    assert (F := H _ Q' L').
    assert (Rabs (rnd w - w) * / row <= eta * 1) by (apply Rmult_le_compat; try apply Rabs_pos; lra).
    assert (0 <= path 2 * (w / row)) by (apply Rmult_le_pos; [rewrite P2; assert (0 <= u * u) by (apply Rmult_le_pos; lra); lra | exact Q]). lra.
Qed.

Definition prob_of_own n m w row g V :=
  Sum n (fun j => (path 2 * Rabs (w j / row) + 2 * eta) * Rabs (exact_dP m g V j)).

Definition norm_of_codes n delta := Rabs delta * (compound (code_sum n) (path 2) + INR n * (2 * eta)).

Theorem associated_row :
  forall n m e l E head w row P V dO' dP O32 delta dS,
  softmax n e l E -> coded n e head w -> products n m dO' V dP ->
  sum_of n (fun j => rnd (w j)) row -> 1 <= row -> outputs n m w V row O32 ->
  dot_of m (fun k => rnd (dO' k)) O32 delta ->
  (forall j, (j < n)%nat -> P j = rnd (rnd (w j) / row)) -> elements n P dP delta dS ->
  INR n * u <= / 4 -> INR m * INR m * u <= 1 ->
  Rabs (Sum n dS) <=
    prob_of_own n m w row dO' V + acc_of_dots n m dO' w row V
    + dot_of_channels m (compound (INR m * u) (path 1)) dO' O32 + norm_of_codes n delta
    + accdP_of_dots n m P dO' V + elem_of_roundings n P dP delta.
Proof.
  intros n m e l E head w row P V dO' dP O32 delta dS S C D R R1 X Y HP G K M.
  assert (W := w_positive n e l E S head w C).
  assert (I := ledger_consistent n m P (fun j => w j / row) dP dS dO' O32 O32 V V delta).
  rewrite no_vmis in I. unfold R_row in I. rewrite I, Rplus_0_r. clear I.
  destruct (code_sum_near n w row R W R1 K) as (X1 & N). assert (I : 0 < / row) by (apply Rinv_0_lt_compat; lra).
  assert (PP : forall j, (j < n)%nat -> 0 <= P j).
  { intros j J. rewrite (HP j J). rewrite <- rnd_0. apply rnd_le. unfold Rdiv. apply Rmult_le_pos; [| lra].
    rewrite <- rnd_0. apply rnd_le, W, J. }
  assert (T : forall j, (j < n)%nat -> Rabs (P j - w j / row) <= path 2 * Rabs (w j / row) + 2 * eta).
  { intros j J. rewrite (HP j J), (Rabs_right (w j / row)); [apply rounded_twice; [apply W, J | exact R1] |].
    apply Rle_ge. unfold Rdiv. apply Rmult_le_pos; [apply W, J | lra]. }
  assert (A : Rabs (prob n m P (fun j => w j / row) dO' V) <= prob_of_own n m w row dO' V).
  { rewrite prob_exchange. apply prob_associated. exact T. }
  assert (Z : out m dO' O32 O32 = 0).
  { unfold out. rewrite (Sum_ext m _ (fun _ => 0)); [rewrite Sum_0; ring |]. intros k _. ring. }
  assert (A2 := acc_bounded n m dO' w row V O32 K R1 W X). assert (A4 := dot_bounded_once m dO' O32 delta M Y).
  assert (A5 : Rabs (norm n P delta) <= norm_of_codes n delta).
  { unfold norm, norm_of_codes, B_row.
    assert (V1 : forall j, (j < n)%nat -> w j * (1 + (Sum n w / row - 1)) / Sum n w = w j / row).
    { intros j J. field. split; lra. }
    apply (norm_associated n P w (Sum n w / row - 1) (code_sum n) (path 2) (2 * eta) delta W).
    - lra.
    - exact N.
    - eapply Rle_trans; [apply Rabs_pos | exact N].
    - apply path_positive.
    - intros j J. rewrite (V1 j J). apply T, J. }
  assert (A6 := accdP_bounded n m P dP dO' V (few_channels m M) PP D).
  assert (A7 := elem_bounded n P dP delta dS (dot_format _ _ _ _ Y) (fun j J => dot_format _ _ _ _ (D j J)) G).
  rewrite Z. apply Rabs_le_inv in A, A2, A4, A5, A6, A7. apply Rabs_le. lra.
Qed.

(** matched: delta is the row's own dot of P and dP. *)
Definition match_of_dot n (P dP : nat -> R) :=
  INR n * u * Sum n (fun j => Rabs (P j * dP j)) + INR n * eta * (1 + INR n * u + Largest n (fun j => Rabs (dP j))).

Lemma listed : forall n (P d : nat -> R) r, Permutation r (numbers n (fun j => (P j, d j))) ->
  A r = Sum n (fun j => P j * d j) /\ M r = Sum n (fun j => Rabs (P j * d j)) /\ B r = Sum n P /\ length r = n /\
  (forall c, spread c r = Sum n (fun j => Rabs (P j * (d j - c)))).
Proof.
  intros n P d r H. unfold A, M, B, spread. rewrite !over_added.
  rewrite !(added_of _ _ _ _ _ H). repeat split; try reflexivity; [apply (length_numbers _ _ _ _ H) |].
  intro c. rewrite over_added. exact (added_of _ _ _ (fun k => Rabs (fst k * (snd k - c))) _ H).
Qed.

Theorem matched_row :
  forall n m e l P s V dO' dP delta dS,
  softmax n e l P -> products n m dO' V dP -> dot_of n P dP delta -> elements n P dP delta dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 ->
  Rabs (Sum n dS) <= match_of_dot n P dP + norm_of_sum n delta s + elem_of_roundings n P dP delta.
Proof.
  intros n m e l P s V dO' dP delta dS S D Y E N H.
  assert (A7 := elem_bounded n P dP delta dS (dot_format _ _ _ _ Y) (fun j J => dot_format _ _ _ _ (D j J)) E).
  assert (A5 := norm_bounded n e l P s delta S N H).
  destruct Y as (t & T & ->). destruct (listed n P dP (keys t) T) as (LA & LM & LB & LN & _).
  assert (A1 := match_any_order t _ (Largest_positive n (fun j => Rabs (dP j)))). cbv zeta in A1. rewrite LA, LM, LN in A1.
  fold (match_of_dot n P dP) in A1. unfold elem, norm, B_row in *.
  set (b := Sum n P) in *. set (a := Sum n (fun j => P j * dP j)) in *. set (c := computed t) in *.
  assert (Z : Sum n (fun j => dS j - P j * (dP j - c)) = Sum n dS - (a - c * b)).
  { unfold a, b. rewrite <- Sum_scale, <- !Sum_minus. apply Sum_ext. intros j _. ring. }
  rewrite Z in A7. apply Rabs_le_inv in A1, A5, A7. apply Rabs_le. lra.
Qed.

Lemma P_small : forall n e l P j, softmax n e l P -> (j < n)%nat -> P j <= 1.
Proof.
  intros n e l P j S J. assert (L := l_1 n e l P S). destruct S as (X & T & H). assert (F : forall k, (k < n)%nat -> binary32 (e k) /\ 0 <= e k).
  { intros k K. destruct (H k K) as (A & B & _). split; assumption. }
  assert (G := sum_at_least n e l j T F J). destruct (H j J) as (_ & E & ->).
  apply rnd_below; [apply (small_integers 1); reflexivity |].
  apply Rmult_le_reg_r with l; [lra |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

Lemma weights_range : forall n e l P s, softmax n e l P -> Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> INR n * u <= / 4 ->
  0 < Sum n P <= INR n.
Proof.
  intros n e l P s S N H K. assert (U := unit_row n e l P s S N H). assert (Q := share_error_small s H).
  assert (u0 := u_small). assert (NN : INR n <= 33554432).
  { apply Rmult_le_reg_r with u; [lra |]. assert (u = / 16777216) by (unfold u, prec; simpl; lra). lra. }
  assert (NE := eta_below_u (INR n) (conj (pos_INR n) NN)). apply Rabs_le_inv in U. split; [lra |].
  replace (INR n) with (Sum n (fun _ => 1)) by (rewrite Sum_constant; ring).
  apply Sum_le. intros j J. apply (P_small n e l P j S J).
Qed.

(** renormalized: a over b, b a sum of the P; h is its relative error. *)
Definition balance_of_quotient n (P d : nat -> R) g h delta :=
  g * Sum n (fun j => Rabs (P j * d j))
  + (Rabs (Sum n (fun j => P j * d j)) + g * Sum n (fun j => Rabs (P j * d j))) * (h + u) / (1 - h)
  + INR n * eta * (4 + Rabs delta + Largest n (fun j => Rabs (d j))).

Theorem renormalized_row :
  forall n m e l P s h V dO' dP a b dS,
  softmax n e l P -> products n m dO' V dP -> dot_of n P dP a -> elements n P dP (rnd (a / b)) dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> Rabs (b - Sum n P) <= h * Sum n P -> 0 <= h <= / 4 ->
  INR n * u <= / 4 ->
  Rabs (Sum n dS) <=
    balance_of_quotient n P dP (INR n * u) h (rnd (a / b)) + elem_of_roundings n P dP (rnd (a / b)).
Proof.
  intros n m e l P s h V dO' dP a b dS S D Y E N H Bn Hh K.
  assert (A7 := elem_bounded n P dP _ dS (rnd_format _) (fun j J => dot_format _ _ _ _ (D j J)) E).
  assert (W := weights_range n e l P s S N H K).
  destruct Y as (t & T & ->). destruct (listed n P dP (keys t) T) as (LA & LM & LB & LN & _).
  assert (A1 := balance_renormalized t b h (Largest n (fun j => Rabs (dP j)))). cbv zeta in A1. rewrite LA, LM, LB, LN in A1.
  specialize (A1 (proj1 W) (proj2 W) Hh K (Largest_positive n _) Bn).
  fold (balance_of_quotient n P dP (INR n * u) h (rnd (computed t / b))) in A1.
  set (c := rnd (computed t / b)) in *. unfold elem in A7.
  assert (Z : Sum n (fun j => dS j - P j * (dP j - c)) = Sum n dS - (Sum n (fun j => P j * dP j) - c * Sum n P)).
  { rewrite <- Sum_scale, <- !Sum_minus. apply Sum_ext. intros j _. ring. }
  rewrite Z in A7. apply Rabs_le_inv in A1, A7. apply Rabs_le. lra.
Qed.

(** shifted: the dP of one key is taken off all before. *)
Theorem shifted_row :
  forall n m e l P s h V dO' dP shift a b dS,
  softmax n e l P -> products n m dO' V dP -> binary32 shift -> dot_of n P (fun j => rnd (dP j - shift)) a ->
  elements n P (fun j => rnd (dP j - shift)) (rnd (a / b)) dS ->
  Rabs (l - Sum n e) <= s * Sum n e -> 0 <= s <= / 4 -> Rabs (b - Sum n P) <= h * Sum n P -> 0 <= h <= / 4 ->
  INR n * u <= / 4 ->
  Rabs (Sum n dS) <=
    balance_of_quotient n P (fun j => dP j - shift) (compound (INR n * u) (path 1)) h (rnd (a / b))
    + (elem_of_roundings n P (fun j => dP j - shift) (rnd (a / b))
    + u * (1 + path 2) * Sum n (fun j => Rabs (P j * (dP j - shift)))).
Proof.
  intros n m e l P s h V dO' dP shift a b dS S D Fs Y E N H Bn Hh K.
  assert (W := weights_range n e l P s S N H K).
  destruct Y as (t & T & ->). set (lo := rnd (computed t / b)) in *.
  assert (X : exists r, keys t = rounded r /\ Permutation r (numbers n (fun j => (P j, dP j - shift)))).
  { replace (numbers n (fun j => (P j, rnd (dP j - shift)))) with (rounded (numbers n (fun j => (P j, dP j - shift)))) in T.
    - unfold rounded in T. destruct (Permutation_map_inv _ _ T) as (r & R & Q). exists r. split; [exact R | apply Permutation_sym; exact Q].
    - unfold rounded, numbers. rewrite map_map. reflexivity. }
  destruct X as (r & R & Q). destruct (listed n P (fun j => dP j - shift) r Q) as (LA & LM & LB & LN & LS).
  assert (F : differences r).
  { intros p d I. destruct (in_numbers _ _ _ _ _ Q I) as (j & J & Z). injection Z as -> ->. unfold Rminus.
    apply rnd_plus_error; [apply (dot_format _ _ _ _ (D j J)) | apply format_opp; exact Fs]. }
  assert (A1 := balance_shifted t r b h (Largest n (fun j => Rabs (dP j - shift))) R F). cbv zeta in A1.
  rewrite LA, LM, LB, LN in A1. specialize (A1 (proj1 W) (proj2 W) Hh K (Largest_positive n _) Bn). fold lo in A1.
  fold (balance_of_quotient n P (fun j => dP j - shift) (compound (INR n * u) (path 1)) h lo) in A1.
  assert (A7 := elem_three_roundings lo r (rnd_format _) F). rewrite LA, LM, LB, LN, LS in A7.
  assert (Z : residual lo (rounded r) = Sum n dS).
  { unfold residual. rewrite over_added. unfold rounded. rewrite map_map.
    rewrite (added_of _ _ _ _ _ Q). apply Sum_ext. intros j J. rewrite (E j J). reflexivity. }
  rewrite Z in A7. unfold elem_of_roundings. apply Rabs_le_inv in A1, A7. apply Rabs_le. lra.
Qed.

(** After the cast to nearest: each number under its tile's scale, its quotient rounded. *)
Definition nearest_codes n (dS scale code_of : nat -> R) :=
  forall j, (j < n)%nat -> 0 < scale j /\ Rabs (rnd (dS j / scale j)) <= 464 /\ code_of j = code (rnd (dS j / scale j)).

Theorem after_nearest :
  forall n dS scale codes before, nearest_codes n dS scale codes -> Rabs (Sum n dS) <= before ->
  Rabs (Sum n (fun j => scale j * codes j)) <=
    before + Sum n (fun j => Rmin (Rmin (Rmax (Rabs (dS j) / 17) (scale j * tiny)) (scale j * half_unit (codes j))
      + u * Rabs (dS j)) (Rabs (dS j))).
Proof.
  intros n dS scale codes before C H.
  assert (D : Rabs (Sum n (fun j => scale j * codes j) - Sum n dS) <= Sum n (fun j => Rmin (Rmin (Rmax (Rabs (dS j) / 17) (scale j * tiny))
    (scale j * half_unit (codes j)) + u * Rabs (dS j)) (Rabs (dS j)))).
  { rewrite <- Sum_minus. eapply Rle_trans. apply Sum_abs. apply Sum_le. intros j J. destruct (C j J) as (S & Q & ->).
    apply (cast_of_number (dS j) (scale j) S Q). }
  replace (Sum n (fun j => scale j * codes j)) with (Sum n dS + (Sum n (fun j => scale j * codes j) - Sum n dS)) by ring.
  eapply Rle_trans. apply Rabs_triang. lra.
Qed.
