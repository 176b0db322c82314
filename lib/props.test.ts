import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { type platformSchema, stageFileSchema } from './config.ts';
import type { AgentPlatformProps, StageProps } from './props.ts';

type Plain<T> = T extends object ? { readonly [Member in keyof T]: Plain<T[Member]> } : T;

describe('the props', () => {
  test('have the members and types of the schema', () => {
    expectTypeOf<Plain<AgentPlatformProps>>().toEqualTypeOf<Plain<z.input<typeof platformSchema>>>();
    expectTypeOf<Plain<StageProps>>().toEqualTypeOf<Plain<z.input<typeof stageFileSchema>>>();
  });

  const lines = readFileSync(join(import.meta.dirname, 'props.ts'), 'utf8').split('\n');
  /** Members with their comments. */
  const members = lines.flatMap((line, index) => {
    const [, name, optional] = /^ {2}readonly (\w+)(\?)?: /.exec(line) ?? [];
    if (name === undefined) return [];
    const start = lines.slice(0, index).findLastIndex((each) => each.trimStart().startsWith('/**'));
    const comment = lines.slice(start, index).join('\n');
    const isDocumented = comment.endsWith('*/') && !/\*\/[\s\S]/.test(comment);
    return [{ name, isOptional: optional !== undefined, comment: isDocumented ? comment : '' }];
  });

  test('are each on a line of their own', () => {
    const onOneLine = lines.filter((line) => /\breadonly \w+\??:/.test(line.replace(/^ {2}readonly /, '')));
    expect(onOneLine).toEqual([]);
    expect(members.length).toBeGreaterThan(80);
  });

  test('each have a description', () => {
    expect(members.filter(({ comment }) => !/[A-Za-z]{2}[\s\S]*\./.test(comment)).map(({ name }) => name)).toEqual([]);
  });

  test('each say what holds without them, if they are optional', () => {
    const silent = members.filter(({ comment, isOptional }) => isOptional !== comment.includes('@default '));
    expect(silent.map(({ name }) => name)).toEqual([]);
  });

  test('include every member that the schema accepts', () => {
    const documented = new Set(members.map(({ name }) => name));
    const schema = JSON.stringify(z.toJSONSchema(stageFileSchema, { io: 'input', unrepresentable: 'any' }));
    const names = new Set<string>();
    JSON.parse(schema, (key, value) => {
      if (key === 'properties') for (const name of Object.keys(value)) names.add(name);
      return value;
    });
    expect(names.size).toBeGreaterThan(70);
    expect([...names].filter((name) => !documented.has(name))).toEqual([]);
  });
});
