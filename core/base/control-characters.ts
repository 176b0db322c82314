/**
 * Control characters, as the body of a regular expression class. They could control a terminal or reorder the displayed
 * text: C0 except tab and line feed, DEL, C1 (ECMA-48), and the bidirectional controls of Unicode (UAX 9).
 */
export const CONTROLS = String.raw`\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069`;
const CONTROL = new RegExp(`[${CONTROLS}]`, 'g');
/** A control character, or a sequence that only changes colors. */
const COLOR_OR_CONTROL = new RegExp(String.raw`\u001b\[[\d;:]{0,40}m|[${CONTROLS}]`, 'g');

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Escapes control characters as `\u001b`. JSON stays JSON with the same value. */
export const escapeControls = (text: string): string => text.replace(CONTROL, escaped);

/** Escapes control characters for a terminal: colors stay, and Windows line ends become line feeds. */
export const escapeForTerminal = (text: string): string =>
  text.replaceAll('\r\n', '\n').replace(COLOR_OR_CONTROL, (found) => (found.length > 1 ? found : escaped(found)));
