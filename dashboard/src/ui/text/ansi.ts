import Anser from 'anser';
import { classes } from '../classes.ts';

/** A section of text in one style. */
export interface Piece {
  readonly text: string;
  /** Class names; empty for plain text. */
  readonly look: string;
}

/** Text after this many sequences is plain, because each may become an element. */
const MAX_SEQUENCES = 2_000;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the beginning of an ANSI sequence.
const SEQUENCES = /(?=\x1b\[)/;

/**
 * Parses text with terminal colours (ECMA-48, SGR). Maps colours to theme colours by hue, so that text is legible in
 * both themes, and shows hidden text. Removes other sequences, such as cursor movements.
 */
export function piecesOf(text: string): Piece[] {
  const parser = new Anser();
  const chunks = text.split(SEQUENCES);
  const pieces: { text: string; look: string }[] = [];
  const put = (part: string, look: string) => {
    const last = pieces.at(-1);
    if (part === '') return;
    if (last?.look === look) last.text += part;
    else pieces.push({ text: part, look });
  };
  // Parsed one by one, because the parser's pieces share their list of decorations.
  for (const chunk of chunks.slice(0, MAX_SEQUENCES)) {
    for (const entry of parser.ansiToJson(chunk)) put(entry.content, lookOf(entry));
  }
  put(parser.ansiToText(chunks.slice(MAX_SEQUENCES).join('')), '');
  return pieces;
}

type Hue = 'red' | 'yellow' | 'green' | 'teal' | 'blue' | 'violet' | 'grey' | 'none';

const TEXT: Readonly<Record<Hue, string>> = {
  red: 'text-bad',
  yellow: 'text-warn',
  green: 'text-good',
  teal: 'text-teal',
  blue: 'text-info',
  violet: 'text-violet',
  grey: 'text-soft',
  none: '',
};
/** Only the default text colour is legible on these backgrounds. */
const GROUND: Readonly<Record<Hue, string>> = {
  red: 'bg-bad-ground',
  yellow: 'bg-warn-ground',
  green: 'bg-good-ground',
  teal: 'bg-info-ground',
  blue: 'bg-info-ground',
  violet: 'bg-selected',
  grey: 'bg-hover',
  none: 'bg-hover',
};

function lookOf({ fg, bg, decorations }: Anser.AnserJsonEntry): string {
  const has = (name: Anser.DecorationName) => decorations.includes(name);
  const ground = has('reverse') ? (fg ?? 'none') : bg;
  return classes(
    ground ? GROUND[hueOf(ground)] : fg ? TEXT[hueOf(fg)] : has('dim') && 'text-soft',
    has('bold') && 'font-bold',
    has('italic') && 'italic',
    has('underline') && 'underline',
    has('strikethrough') && 'line-through',
  );
}

/** @param colour "187, 0, 0" */
function hueOf(colour: string): Hue {
  const [red = 0, green = 0, blue = 0] = colour.split(',').map(Number);
  const most = Math.max(red, green, blue);
  const range = most - Math.min(red, green, blue);
  // Black and white map to the default text colour.
  if (range < 30 || Number.isNaN(range)) return most < 40 || most > 180 || Number.isNaN(range) ? 'none' : 'grey';
  const turn =
    most === red ? (green - blue) / range : most === green ? 2 + (blue - red) / range : 4 + (red - green) / range;
  const degrees = (turn * 60 + 360) % 360;
  if (degrees < 20 || degrees >= 340) return 'red';
  if (degrees < 75) return 'yellow';
  if (degrees < 165) return 'green';
  if (degrees < 200) return 'teal';
  return degrees < 260 ? 'blue' : 'violet';
}
