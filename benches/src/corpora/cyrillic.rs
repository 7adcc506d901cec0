//! Russian-like sentences: two bytes a letter, and one for the space.
use pgtoast_testkit::Rng;

/// A sentence and a space.
pub(super) fn sentence(rng: &mut Rng, text: &mut String) {
    let count = rng.between(5, 18);
    for index in 0..count {
        let (one, other) = (rng.below(WORDS.len()), rng.below(WORDS.len()));
        let (third, stem) = (rng.below(WORDS.len()), WORDS[one.min(other)]);
        text.push_str(WORDS[one.min(other).min(third)]);
        if rng.chance(20) {
            text.push_str(rng.pick(ENDINGS));
        } else if rng.chance(10) {
            text.push('-');
            text.push_str(stem);
        }
        text.push_str(match rng.below(12) {
            0 if index + 1 < count => ", ",
            _ if index + 1 < count => " ",
            _ => ". ",
        });
    }
}

const ENDINGS: &[&str] = &["ами", "ого", "ой", "ых", "ия", "ем", "ться", "лся", "ость", "ник"];

/// Most used first.
const WORDS: &[&str] = &[
    "и",
    "в",
    "не",
    "на",
    "он",
    "что",
    "с",
    "как",
    "это",
    "по",
    "но",
    "они",
    "к",
    "у",
    "мы",
    "за",
    "из",
    "от",
    "так",
    "все",
    "же",
    "для",
    "был",
    "сказал",
    "человек",
    "время",
    "год",
    "рука",
    "дело",
    "раз",
    "глаз",
    "жизнь",
    "день",
    "голова",
    "друг",
    "дом",
    "слово",
    "место",
    "лицо",
    "сторона",
    "нога",
    "дверь",
    "работа",
    "земля",
    "конец",
    "час",
    "голос",
    "город",
    "вода",
    "стол",
    "ребёнок",
    "сила",
    "отец",
    "женщина",
    "машина",
    "случай",
    "ночь",
    "мир",
    "вид",
    "ряд",
    "начало",
    "вопрос",
    "война",
    "деньги",
    "минута",
    "жена",
    "правда",
    "страна",
    "свет",
    "мать",
    "товарищ",
    "дорога",
    "окно",
    "комната",
    "письмо",
    "утро",
    "помощь",
    "ветер",
    "счастье",
    "книга",
];
