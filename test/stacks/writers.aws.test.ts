import { expect, test } from 'vitest';
import { tablePrefixOf } from '#lib/config.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { readAssembly } from '#test/rehearsal/assembly.ts';
import { policiesOf } from '#test/rehearsal/iam.ts';
import { everythingAsked } from './everything-asked.ts';

test('whoever may use the tables is a function that knows them, by which the command that stops writers finds it', () => {
  const { folder, stacks } = synthesise(everythingAsked);
  const assembly = readAssembly(folder, stacks);
  const maySee = assembly
    .of('AWS::IAM::Role')
    .filter(({ arn }) =>
      policiesOf(assembly, arn).some(({ actions }) => actions.some((action) => /^(dynamodb:|\*$)/.test(action))),
    );
  const know = assembly.of('AWS::Lambda::Function').filter(({ properties }) => {
    const { PLATFORM_TABLE_PREFIX: prefix } = properties.Environment?.Variables ?? {};
    return prefix === tablePrefixOf(everythingAsked);
  });
  expect(know.length).toBeGreaterThan(20);
  expect(new Set(know.map(({ stack, properties }) => `${stack} ${properties.Role}`))).toEqual(
    new Set(maySee.map(({ stack, arn }) => `${stack} ${arn}`)),
  );
});
