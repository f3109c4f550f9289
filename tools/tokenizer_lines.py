"""The texts that the tokenizer goldens are made of: languages, code, white space, emoji, markup."""

LANGUAGES = [
    "The quick brown fox jumps over the lazy dog, doesn't it? It's what they've said; we'll see.",
    "I'M HERE, YOU'RE THERE, THEY'LL COME, WE'D GO, HE'S LATE, SHE'VE WON, I CAN'T.",
    "Größe, Straße, Übermut und ein schönes Gefühl: »Äpfel« für 3,50 € im Zwölferpack.",
    "L'été dernier, j'ai mangé une crème brûlée à l'hôtel ; ça coûtait 12,90 € !",
    "¿Dónde está el niño? ¡Mañana compraré pingüinos de peluche en Logroño!",
    "Não há coração que aguente tanta emoção; João e a irmã fugiram à noite.",
    "Perché è così? Città, virtù, caffè, e poi l'amica dell'università.",
    "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Árvíztűrő tükörfúrógép, hűvös őszi reggel.",
    "İstanbul'da ılık bir gün: çay, şeker, ğ ve ö harfleri.",
    "Tiếng Việt có nhiều dấu: Đường phố Hà Nội rất đẹp vào mùa thu.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Щастя, їжак, ґанок і єнот живуть у Києві.",
    "Η γρήγορη καφετιά αλεπού πηδάει πάνω από το τεμπέλικο σκυλί. Ἀρχιμήδης ὁ Συρακόσιος.",
    "שלום עולם! זה משפט בעברית עם נִקּוּד: בְּרֵאשִׁית.",
    "مرحبا بالعالم. اللُّغَةُ العَرَبِيَّةُ جَمِيلَةٌ جِدًّا، وَفِيهَا حَرَكَاتٌ كَثِيرَةٌ.",
    "سلام دنیا، می‌خواهم چای بنوشم.",
    "آج موسم بہت اچھا ہے۔",
    "नमस्ते दुनिया। यह एक परीक्षण वाक्य है, जिसमें क्षत्रिय और ज्ञान जैसे शब्द हैं।",
    "বাংলা ভাষায় একটি বাক্য লিখছি।",
    "தமிழ் மொழியில் ஒரு வாக்கியம்.",
    "తెలుగు భాషలో ఒక వాక్యం.",
    "สวัสดีชาวโลก วันนี้อากาศดีมากและฉันอยากกินข้าวผัด",
    "ສະບາຍດີ ພາສາລາວ",
    "မင်္ဂလာပါ ကမ္ဘာလောက",
    "ភាសាខ្មែរ​មាន​អក្សរ​ស្អាត",
    "你好，世界！今天天气很好，我们去公园散步吧。",
    "漢字與繁體中文：臺灣的龜山島與鬱金香。",
    "こんにちは世界。今日はとても良い天気ですね。カタカナとひらがな、そして漢字。",
    "ﾊﾝｶｸｶﾀｶﾅ と 全角ＡＢＣ１２３",
    "안녕하세요 세계! 오늘은 날씨가 정말 좋네요. 한글은 과학적인 글자입니다.",
    "가나다 ᄀᆞᆯ 옛한글",
    "გამარჯობა მსოფლიო",
    "Բարեւ աշխարհ",
    "ሰላም ልዑል",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ᠌ a\u180eb \u180e x",
    "བོད་སྐད་ ཡིག་",
    "සිංහල භාෂාව",
    "Cafe\u0301 e\u0301te\u0301 nai\u0308ve A\u030angstro\u0308m (combining) and Café été naïve (composed)",
    "Ṩ Ṩ ḍ̇ q̣̇ ﬁ ﬀ ﬆ Å Ω K",
    "Zalgo: H̸̡̪̯ͨ͊̽̅̾̎Ȩ̬̩̾͛ͪ̈́̀́͘ ̶̧̨̱̹̭̯ͧ̾ͬC̷̙̲̝͖ͭ̏ͥͮ͟Oͮ͏̮̪̝͍M̲̖͊̒ͪͩͬ̚̚͜Ȇ̴̟̟͙̞ͩ͌͝S̨̥̫͎̭ͯ̿̔̀ͅ",
    "Mixed: 北京 is Beijing, Москва is Moscow, القاهرة is Cairo, Αθήνα is Athens.",
    "abcαβγабвअआआ一二三あいう가나다",
    "Gothic 𐌰𐌱𐌲, cuneiform 𒀀𒁀, hieroglyphs 𓀀𓂀, rare Han 𠮷𡃁𪚥, math 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒳 𝟘𝟙",
    "ſuperſcripts ² ³ ¹ ½ ¾ ⅓ Ⅷ ⅻ ① ㊿ १२३ ٤٥٦ ๗๘๙ 〇一",
    "don't can't DON'T it'S we'Ve I'lL 'ſ 'tis ’tis ‘quoted’ “double”",
    "naïve coöperation façade — em-dash – en-dash … ellipsis ‽ interrobang",
]

EMOJI = [
    "😀😃😄😁😆",
    "👩‍💻👨‍👩‍👧‍👦👩🏽‍🚀🧑🏿‍🤝‍🧑🏻",
    "👍👍🏻👍🏼👍🏽👍🏾👍🏿",
    "❤️ vs ❤ and ☺️ ☹︎ ✔️ ✈️",
    "🇩🇪🇫🇷🇯🇵🇧🇷🏴󠁧󠁢󠁥󠁮󠁧󠁿🏳️‍🌈",
    "Nice work! 🎉🎉 See you 🔜 at 5️⃣ o'clock #️⃣*️⃣",
    "🤷🏻‍♀️ 🤦🏾‍♂️ 🧔🏼‍♀️ 🫠🫡🫶🏽🪴🫖",
    "a😀b 😀c d😀 e",
    "♠♥♦♣ ♔♕ ♩♪♫ ☀☁☂ ⚀⚁⚂",
    "▁▁▁ ▁a ▁ ▁▁b (the SentencePiece mark itself)",
]

CODE = [
    "def fibonacci(n: int) -> int:\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];  // dot product\n}\n",
    "template <typename T>\nconstexpr auto square(T x) noexcept { return x * x; }\n",
    "fn main() {\n    let v: Vec<u32> = (0..10).filter(|x| x % 2 == 0).collect();\n    println!(\"{v:?}\");\n}",
    "const f = async ({ a, ...rest }) => `${a}:${JSON.stringify(rest)}` ?? null;",
    "SELECT u.id, COUNT(*) AS n FROM users u LEFT JOIN orders o ON o.uid = u.id GROUP BY 1 HAVING n >= 10;",
    "#!/bin/sh\nset -eu\nfor f in *.txt; do sed -e 's/[0-9]\\{2,\\}/N/g' \"$f\" | sort -u > \"${f%.txt}.out\"; done\n",
    "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hi\")\n}\n",
    "{\"name\": \"x\", \"values\": [1, 2.5, -3e10, null, true], \"nested\": {\"k\\n\": \"\\u00e9\"}}",
    "key: value\nlist:\n  - one\n  - two: {a: 1}\n# comment\n",
    "\\begin{align}\n  E &= mc^2 \\\\ \\int_0^\\infty e^{-x^2}\\,dx &= \\frac{\\sqrt{\\pi}}{2}\n\\end{align}",
    "public static void main(String[] args) { System.out.println(\"A\" + 'b'); }",
    "main :: IO ()\nmain = mapM_ print $ takeWhile (<100) [x^2 | x <- [1..], odd x]",
    "if (!(x & 0xFF) || y >>= 3 && z != ~w) { goto *ptr->next[i]; }",
    "C:\\Users\\name\\file.txt /usr/local/bin/../lib ./a.out --flag=value -abc",
    "https://www.example.org/path/to?query=1&b=%20x#frag mailto:someone@example.org",
    "camelCaseName PascalCaseName snake_case_name SCREAMING_SNAKE kebab-case-name HTTPServer2XML",
    "x=1;y=2;z=x+y;//no spaces\n/*block*/\n\n\n",
    "\tif x:\n\t\treturn\n\t\t\tpass\n\t\t\t\t\tx\n",
    "/**\n * doc\n */\n///\n////\n//\n//// a/b//c\n",
]

MARKUP = [
    "<html><head><title>T</title></head><body><h1>Hi</h1><p>a <b>b</b> <i>c</i></p></body></html>",
    "<table><thead><tr><th>A</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
    "<ul><li>one</li><li>two</li></ul><ol><li>3</li></ol><blockquote>q</blockquote>",
    "<h2 class=\"x\">a</h2><h3>b</h3><h4>c</h4><br/><strong>d</strong><em>e</em><u>f</u><s>g</s>",
    "<sup>2</sup><sub>1</sub><code>x</code><a href='y'>z</a><img src=\"a.png\">",
    "&lt;b&gt; &amp; &quot;x&quot; &#39; &nbsp;",
    "# Title\n\n* item **bold** _it_ `code`\n1. one\n2. two\n\n> quote\n\n```py\nx\n```\n\n---\n",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n",
]

CONTROL = [
    "<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",
    "a<eos>b<pad>c<unk>d<mask>e",
    "<start_of_image><end_of_image>[multimodal]<unused0><unused12>",
    "text <end_of_turn> text<end_of_turn>text",
    "<start_of_turn", "<start_of_turn>>", "<<start_of_turn>", "<end_of_turn><end_of_turn>",
    "x <bos> in the middle<bos>",
    "<0x0A> <0xFF> <0x41>",
    "<|im_start|>system\n<|im_end|>", "[INST] hi [/INST]", "<s> </s>",
    "<unused6241><unused6242>", "<table<tr>", "</table></tr>",
]

SPACE = [
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", "\t\t", "\r", "\r\n", "\r\n\r\n", "\n\r\n\r",
    " a", "a ", " a ", "  a", "a  b", "a   b", "a    b     c      d", "   leading", "trailing   ",
    "tab\tseparated\tvalues\t\tx", " \n \n  \n", "\n \t\n\t ", "a\r\nb\r\nc\r\n", "a\rb\rc",
    "line\n\nline\n\n\nline\n\n\n\nline", "a\u00a0b\u00a0\u00a0c", "a\u2003b\u2009c\u3000d\u202fe\ufefff",
    "zero\u200bwidth\u200cjoin\u200der\u2060x", "a\u0085b\u2028c\u2029d\x0be\x0cf",
    "nul\x00byte", "\x00", "\x00\x00\x00", "a\x00\x00b \x00 c", "\x01\x02\x1b[31mred\x1b[0m\x7f",
    "def f():\n    x\n        y\n            z\n                w\n", "\n    \n        \n", "- \n  - \n    -",
]
SPACE += [" " * n for n in (4, 7, 15, 16, 30, 31, 32, 33, 40, 62, 63, 64, 65, 100)]
SPACE += ["\n" * n for n in (4, 15, 30, 31, 32, 33, 62, 63, 64, 100)]
SPACE += ["\t" * n for n in (3, 15, 31, 32, 33, 70)]
SPACE += [" " * n + "x" for n in (2, 3, 4, 8, 31, 32, 33)] + ["x" + " " * n + "y" for n in (2, 5, 17, 40)]

NUMBERS = [
    "0", "7", "42", "123", "1234", "12345", "1234567890", "3.14159265358979", "1,234,567.89",
    "-1e-10 +6.02e23 0x1F 0b1010 0o777 1_000_000", "2024-02-29T23:59:59.999Z", "192.168.0.1:8080",
    "+1 (555) 010-9999", "a1b2c3 4d5e6f x86_64 utf8 h264", "100% $5.00 €10 ¥1000 £3 ₿0.5 №7 #42 @x",
    "1+1=2 3*4=12 10/5=2 2^10=1024", "1st 2nd 3rd 4th", "v1.2.3-rc.4+build.5",
    "0000000000000000", "99999999999999999999999999999999",
]

LONG = [
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism",
    "a" * 200, "ab" * 100, "xyz" * 60, "A" * 77, "é" * 50, "漢" * 40, "😀" * 30, "!" * 64,
    "=" * 80, "-" * 79, "." * 33, "_" * 50, "#" * 40, "aA" * 40, "0" * 65, "e\u0301" * 30, ">" * 20,
    "qzxjkvbwpyfgmucldrhsnioate" * 4, "ha" * 30 + "!", "\u0301" * 10, "ffffffff-ffff-4fff-8fff-ffffffffffff",
    "d41d8cd98f00b204e9800998ecf8427e", "SGVsbG8gV29ybGQhIFRoaXMgaXMgYmFzZTY0Lg==",
]

LINES = LANGUAGES + EMOJI + CODE + MARKUP + CONTROL + SPACE + NUMBERS + LONG
