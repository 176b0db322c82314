/**
 * The characters of a class of a regular expression. They could make a terminal do something, or show text in another order than it has: C0 without tab and line feed,
 * DEL, C1 (ECMA-48), and the bidirectional controls of Unicode (UAX 9).
 */
export const CONTROLS = String.raw`\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069`;
const CONTROL = new RegExp(`[${CONTROLS}]`, 'g');
/** The same, or a sequence that only changes colours. */
const COLOR_OR_CONTROL = new RegExp(String.raw`\u001b\[[\d;:]{0,40}m|[${CONTROLS}]`, 'g');

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** The text with control characters written as `\u001b`. JSON stays JSON with the same value. */
export const escapeControls = (text: string): string => text.replace(CONTROL, escaped);

/** As {@link escapeControls}, for a terminal: line ends of Windows become plain ones, and colours stay. */
export const escapeForTerminal = (text: string): string =>
  text.replaceAll('\r\n', '\n').replace(COLOR_OR_CONTROL, (found) => (found.length > 1 ? found : escaped(found)));
