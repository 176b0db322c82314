import { expect, test } from 'vitest';
import type { TableName } from '#core/ports/table-rules.ts';
import { recordedShapes } from '#test/e2e/stored-shapes.ts';
import { KINDS, kindOf } from './kinds.ts';

/** Layouts as text: `main WS#*#LEDGER / BALANCE`. */
const layouts = Object.keys(recordedShapes());

function keyOf(layout: string) {
  const [, table, pk, sk] = /^(\w+) (.*) \/ (.*)$/.exec(layout)!;
  return { table: table as TableName, pk: pk!, sk: sk! };
}

test('says of every stored layout what a move does with it', () => {
  const unknown = layouts.filter((layout) => kindOf(keyOf(layout).table, keyOf(layout)) === undefined);
  expect(unknown, 'add these to core/api/moves/kinds.ts').toEqual([]);
});

test('gives a reason for each kind that is dropped, and for no other', () => {
  expect(KINDS.filter(({ fate, why }) => (fate === 'drop') !== (why !== undefined))).toEqual([]);
});

test('finds the workspace in the key of each kind that has it there', () => {
  const wrong = KINDS.filter(({ of, pk }) => (of === 'key') !== pk.includes('<ws>'));
  expect(wrong).toEqual([]);
});

/** Kinds that no end-to-end test stores. */
const UNRECORDED = ['main OIDC#*', 'main VAULT#*', 'runs OPERATOR#TELEMETRY', 'counters OIDC#*'];

test('has no kind that is not stored', () => {
  const known = new Set(layouts.map((layout) => kindOf(keyOf(layout).table, keyOf(layout))?.kind));
  const unused = KINDS.filter((kind) => !known.has(kind)).map(({ table, pk }) => `${table} ${pk}`);
  expect(unused).toEqual(UNRECORDED);
});
