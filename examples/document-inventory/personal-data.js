const MAX_PLACES = 20;

/** Lengths of account numbers by country, ISO 13616. */
const IBAN_LENGTHS = new Map(
  `AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18
  FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21
  LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27
  ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20`
    .split(/\s+/)
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);

/**
 * Checks ISO 7064: with the first four characters moved to the end and letters as 10 to 35, the number modulo 97 is 1.
 */
function leavesOne(iban) {
  let rest = 0;
  for (const character of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}

/** Checks Luhn's check digit. */
function hasCheckDigit(digits) {
  const sum = [...digits].reverse().reduce((total, character, index) => {
    const value = Number(character) * (index % 2 === 0 ? 1 : 2);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}

/** Visa, Mastercard, American Express, Diners, JCB, and Discover with its kin: first digits and lengths. */
const ISSUERS = new RegExp(
  [
    '^4(\\d{12}|\\d{15}|\\d{18})$',
    '^(5[1-5]\\d\\d|222[1-9]|22[3-9]\\d|2[3-6]\\d\\d|27[01]\\d|2720)\\d{12}$',
    '^3[47]\\d{13}$',
    '^3(0[0-5]|[68]\\d)\\d{11}$',
    '^35\\d{14}$',
    '^6\\d{15,18}$',
  ].join('|'),
);

/**
 * Each kind finds candidates, and returns the part of a valid one that may be shown: enough to find it in the file, too
 * little to use it. Look-behind prevents a match attempt at each of a million consecutive letters.
 */
const KINDS = [
  {
    kind: 'email',
    pattern: /(?<![\w.+-])[\w.+-]{1,64}@[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9-]{1,63}){0,4}\.[a-z]{2,24}(?![\w-])/gi,
    show: ([address]) => `${address[0]}***@***${address.slice(address.lastIndexOf('.'))}`,
  },
  {
    kind: 'iban',
    // The country determines the length: words in capitals may follow.
    pattern: /(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?=((?: ?[A-Z0-9]){11,35}))/g,
    show([start, rest]) {
      const length = IBAN_LENGTHS.get(start.slice(0, 2));
      const iban = (start + rest).replaceAll(' ', '').slice(0, length);
      return iban.length === length && leavesOne(iban) ? `${start.slice(0, 2)}***${iban.slice(-2)}` : undefined;
    },
  },
  {
    kind: 'card',
    pattern: /(?<!\d[ .,-]?|[A-Za-z])[2-6](?:[ -]?\d){12,18}(?![ -]?\d|[A-Za-z])/g,
    show([found]) {
      const digits = found.replace(/[ -]/g, '');
      return ISSUERS.test(digits) && hasCheckDigit(digits) ? `***${digits.slice(-4)}` : undefined;
    },
  },
];

/** Returns the number of each kind, and the first locations in line order. */
export function findPersonalData(content) {
  const counts = { email: 0, iban: 0, card: 0 };
  const found = [];
  for (const { kind, pattern, show } of KINDS) {
    for (const match of content.matchAll(pattern)) {
      const shown = show(match);
      if (shown === undefined) continue;
      counts[kind]++;
      if (counts[kind] <= MAX_PLACES) found.push({ kind, at: match.index, shown });
    }
  }
  found.sort((a, b) => a.at - b.at);
  const places = [];
  let line = 1;
  let from = 0;
  for (const { kind, at, shown } of found.slice(0, MAX_PLACES)) {
    for (let end = content.indexOf('\n', from); end !== -1 && end < at; end = content.indexOf('\n', from)) {
      line++;
      from = end + 1;
    }
    places.push({ kind, line, shown });
  }
  return { total: counts.email + counts.iban + counts.card, ...counts, places };
}
