import { expect, test } from 'vitest';
import { type Resource, resourcesOf, synthesise } from '#test/helpers/templates.ts';
import { EVERY_KIND } from './every-kind.ts';

/**
 * Services whose documentation does not say that they name their account when they assume a role: the condition could
 * close the stage (docs/decisions/0012-trust-of-roles.md).
 */
const WITHOUT_ACCOUNT = new Set(['apigateway.amazonaws.com', 'events.amazonaws.com', 'lambda.amazonaws.com']);

test.each(Object.entries(EVERY_KIND))(
  'services assume roles on behalf of this account only, where they say so: %s',
  (_, stage) => {
    const open = synthesise(stage).stacks.flatMap(({ template }) =>
      resourcesOf(template, 'AWS::IAM::Role').flatMap(([id, { Properties }]: [string, Resource]) =>
        Properties.AssumeRolePolicyDocument.Statement.filter(
          ({ Condition, Principal }: { Condition?: { StringEquals?: object }; Principal: { Service: string } }) =>
            !WITHOUT_ACCOUNT.has(Principal.Service) && !('aws:SourceAccount' in (Condition?.StringEquals ?? {})),
        ).map(({ Principal }: { Principal: object }) => [id, Principal]),
      ),
    );
    expect(open).toEqual([]);
  },
);
