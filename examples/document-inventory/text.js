/** A control character that no text has. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]/;

/** Decodes text; returns `undefined` for other content. An empty file is text. */
export function decode(bytes) {
  for (const encoding of candidates(bytes)) {
    try {
      const content = new TextDecoder(encoding, { fatal: true }).decode(bytes);
      if (!CONTROL.test(content)) return { encoding, content };
    } catch {
      // The bytes are not valid in this encoding.
    }
  }
  return undefined;
}

/** UTF-16 only with a byte order mark; any bytes without control characters can be read as windows-1252. */
function candidates(bytes) {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return ['utf-16le'];
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return ['utf-16be'];
  return ['utf-8', 'windows-1252'];
}

/** Works without a list of lines, because a large file may consist of line breaks. */
export function measure(content) {
  let lines = 0;
  let longest = 0;
  for (let start = 0; start < content.length; lines++) {
    const found = content.indexOf('\n', start);
    const end = found === -1 ? content.length : found;
    longest = Math.max(longest, end - start - (content[end - 1] === '\r' && end > start ? 1 : 0));
    start = end + 1;
  }
  let words = 0;
  let inWord = false;
  for (let at = 0; at < content.length; at++) {
    const isSpace = isWhitespace(content.charCodeAt(at));
    if (!isSpace && !inWord) words++;
    inWord = !isSpace;
  }
  return { lines, words, longest_line: longest };
}

const isWhitespace = (code) => code === 32 || (code >= 9 && code <= 13) || code === 0xa0 || code === 0x2028;
