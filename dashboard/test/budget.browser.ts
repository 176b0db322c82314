import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { findChromium } from './chromium.ts';

const DIST = join(import.meta.dirname, '../dist');
const KB = 1000;
/** Maximum compressed size of the scripts of the first page. */
const SHELL_KB = 190;
/** Maximum compressed size that each page adds. */
const PAGE_KB = 90;
/** Maximum sizes of large parts that are loaded on demand. */
const LARGE: Readonly<Record<string, number>> = {
  'src/ui/text/editor.tsx': 115,
  'src/ui/schema-form.tsx': 110,
  'src/ui/data/chart.tsx': 125,
};

interface Chunk {
  readonly file: string;
  readonly imports?: readonly string[];
  readonly isDynamicEntry?: boolean;
}

describe.skipIf(findChromium() === undefined)('sizes', () => {
  const manifest = (): Record<string, Chunk> => JSON.parse(readFileSync(join(DIST, '.vite/manifest.json'), 'utf8'));
  const size = (file: string): number => gzipSync(readFileSync(join(DIST, file)), { level: 9 }).length;
  /** Returns a chunk and its static imports. */
  const closure = (chunks: Record<string, Chunk>, name: string, seen = new Set<string>()): Set<string> => {
    if (!seen.has(name)) {
      seen.add(name);
      for (const each of chunks[name]!.imports ?? []) closure(chunks, each, seen);
    }
    return seen;
  };

  test(`the shell has at most ${SHELL_KB} KB, a page ${PAGE_KB}`, () => {
    const chunks = manifest();
    const shell = closure(chunks, 'index.html');
    const total = (names: Iterable<string>) => [...names].reduce((sum, name) => sum + size(chunks[name]!.file), 0) / KB;
    expect(total(shell)).toBeLessThan(SHELL_KB);
    const tooLarge = Object.entries(chunks)
      .filter(([, { isDynamicEntry }]) => isDynamicEntry)
      .map(([name]) => ({ name, kb: total(closure(chunks, name).difference(shell)) }))
      .filter(({ name, kb }) => kb > (LARGE[name] ?? PAGE_KB));
    expect(tooLarge).toEqual([]);
  });

  test('no schema of the API is in it', () => {
    const scripts = Object.values(manifest()).map(({ file }) => readFileSync(join(DIST, file), 'utf8'));
    expect(scripts.filter((text) => text.includes('ZodError'))).toEqual([]);
  });
});
