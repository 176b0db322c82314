/** Characters that reorder or hide adjacent text; displayed as code points. */
const TRICKS = /(?![\n\r\t])[\p{C}\p{Zl}\p{Zp}]/gu;

/** Escapes untrusted text so that nothing in it hides or reorders text. */
export const escapeText = (text: string): string =>
  text.replaceAll(TRICKS, (sign) => `\\u{${sign.codePointAt(0)!.toString(16)}}`);
