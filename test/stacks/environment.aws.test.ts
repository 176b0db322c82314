import { App, Stage as CdkStage } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { expect, test } from 'vitest';
import { AgentPlatform } from '#lib/platform.ts';
import { emptyFolders, TEST_ACCOUNT, TEST_REGION } from '#test/helpers/templates.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { stage as dev } from '../../stages/dev.ts';
import { EVERY_KIND } from './every-kind.ts';

/** Templates then hold values where they otherwise refer to the account and Region of the deployment. */
test.each(Object.entries(EVERY_KIND))(
  'cdk-nag has no finding where the app names its account and Region: %s',
  (_, stage) => {
    const { bootstrapQualifier: __, permissionsBoundary: ___, ...props } = stage;
    for (const context of [cdkJson.context, {}]) {
      const app = new App({ context });
      const around = new CdkStage(app, 'around', { env: { account: TEST_ACCOUNT, region: TEST_REGION } });
      new AgentPlatform(around, 'agents', props, emptyFolders());
      expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
    }
  },
);

test('MicroVMs are refused in a Region without them, where the app names its Region', () => {
  const props = { ...dev, sandbox: { kind: 'microvm' } } as const;
  const platformIn = (region?: string, context = {}) => {
    const { bootstrapQualifier: _, permissionsBoundary: __, ...rest } = props;
    const around = region ? new CdkStage(new App({ context }), 'around', { env: { region } }) : new App({ context });
    return () => new AgentPlatform(around, 'agents', rest, emptyFolders());
  };
  expect(platformIn('ca-west-1')).toThrow(/"dev" is invalid[\s\S]*ca-west-1[\s\S]*at sandbox\.kind/);
  expect(platformIn('ca-west-1', { 'agent-platform:microvmRegions': ['ca-west-1'] })).not.toThrow();
  for (const region of ['eu-west-1', undefined]) expect(platformIn(region)).not.toThrow();
});
