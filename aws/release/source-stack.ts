import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';

const PLACE = /file:\/\/(\/[^\s()]+\.cjs):(\d+):(\d+)/g;

/**
 * Maps an error's stack to our sources, for files with source maps beside them. Node's `--enable-source-maps` does the
 * same, but loads every map at startup, which takes a fifth of a cold start.
 */
export function sourceStack(stack: string): string {
  const maps = new Map<string, SourceMap | undefined>();
  return stack.replaceAll(PLACE, (place, file: string, line: string, column: string) => {
    if (!maps.has(file)) maps.set(file, readMap(`${file}.map`));
    const entry = maps.get(file)?.findEntry(Number(line) - 1, Number(column) - 1);
    if (entry === undefined || !('originalSource' in entry)) return place;
    return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
  });
}

function readMap(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    // An unmapped stack is better than none.
    return undefined;
  }
}
