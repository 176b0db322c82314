import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Cli } from './cli.ts';
import { Output } from './output.ts';
import { RunProgress } from './run-progress.ts';

function start() {
  let shown = '';
  const terminal = { write: (text: string) => (shown += text) };
  const output = new Output({
    stdout: terminal,
    stderr: terminal,
    json: false,
    quiet: false,
    color: false,
    isLive: false,
  });
  return { progress: new RunProgress({ output } as Cli), shown: () => shown };
}

const text = (line: string) => ({ type: 'stderr', text: line });
const turn = (number: number) => ({ type: 'turn_start', turn: number, max_turns: 99 });

test('shows each line once, wherever a connection is lost, though pieces of text come again joined', () => {
  const records = fc.array(fc.constantFrom('line', 'turn'), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(records, fc.nat(), fc.nat(), (kinds, first, second) => {
      const all = kinds.map((kind, index) => (kind === 'line' ? text(`line ${index}\n`) : turn(index)));
      const plain = start();
      for (const record of all) plain.progress.show(record);
      const { progress, shown } = start();
      for (const record of all.slice(0, first % (all.length + 1))) progress.show(record);
      progress.restart();
      for (const record of joined(all).slice(0, second % (all.length + 1))) progress.show(record);
      progress.restart();
      for (const record of joined(all)) progress.show(record);
      expect(shown()).toBe(plain.shown());
    }),
  );
});

type Record = ReturnType<typeof text> | ReturnType<typeof turn>;

/** Returns the records as events of a run are: consecutive text of one kind is one event. */
function joined(records: readonly Record[]): Record[] {
  const result: Record[] = [];
  for (const record of records) {
    const last = result.at(-1);
    if ('text' in record && last && 'text' in last) result[result.length - 1] = text(last.text + record.text);
    else result.push(record);
  }
  return result;
}
