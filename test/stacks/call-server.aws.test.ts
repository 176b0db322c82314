import { AwsSolutionsChecks } from 'cdk-nag';
import { expect, test } from 'vitest';
import { resourcesOf, synthesise } from '#test/helpers/templates.ts';
import { stage as prod } from '../../stages/prod.ts';

const stage = { ...prod, calls: 'web' as const };
const { app, api } = synthesise(stage);

test('every finding of cdk-nag is acknowledged', () => {
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
});
test('x', () => {
  for (const t of [
    'AWS::Lambda::WebFunction',
    'AWS::Lambda::WebFunctionRevision',
    'AWS::Lambda::WebFunctionEndpoint',
    'AWS::ApiGateway::Stage',
  ])
    console.log(JSON.stringify(resourcesOf(api, t), null, 1));
  const [[, rest]] = resourcesOf(api, 'AWS::ApiGateway::RestApi') as any;
  console.log(JSON.stringify(rest.Properties.Body.paths['/{org}/{agent}/{version}/{endpoint}'], null, 1));
  console.log(
    Object.entries(api.Resources)
      .filter(([id]) => /callserver|WebFunction/i.test(id))
      .map(([id, r]) => id + ' ' + r.Type)
      .join('\n'),
    Object.keys(api.Resources).length,
  );
});
