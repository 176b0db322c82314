import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { routes } from '#core/api/routes.ts';
import { pathParameters, type Route } from '#core/http/route.ts';
import { defineStage } from '#lib/config.ts';
import {
  environmentOf,
  policyOf,
  type Resource,
  rendered,
  resourcesOf,
  synthesise,
  synthesiseAnew,
  type Template,
} from '#test/helpers/templates.ts';
import { stage as prod } from '../../stages/prod.ts';

const web = defineStage({ ...prod, calls: 'web' });
const { app, api } = synthesise(web);
const { api: plain } = synthesise(prod);

const only = (template: Template, type: string): Resource['Properties'] => {
  const found = resourcesOf(template, type);
  expect(found, type).toHaveLength(1);
  return found[0]![1].Properties;
};
const revision = only(api, 'AWS::Lambda::WebFunctionRevision');
const endpoint = only(api, 'AWS::Lambda::WebFunctionEndpoint');
// biome-ignore lint/suspicious/noExplicitAny: an integration as API Gateway imports it.
const integrationsOf = (template: Template): Map<string, any> => {
  const { paths } = only(template, 'AWS::ApiGateway::RestApi').Body;
  return new Map(
    Object.entries<Record<string, Record<string, object>>>(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => [
        `${method} ${path}`,
        operation['x-amazon-apigateway-integration'],
      ]),
    ),
  );
};

describe('the server of calls', () => {
  test('every finding of cdk-nag is acknowledged', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  test('is one web function with the timeout of calls, and bounds that follow from the throttle', () => {
    expect(revision).toMatchObject({
      BuildConfig: { RuntimeConfig: { Runtime: 'nodejs24.x' } },
      ServiceConfig: { TimeoutSeconds: 305, MaxConcurrencyPerEnvironment: 64 },
    });
    expect(endpoint).toMatchObject({
      AuthType: 'ApplicationManaged',
      EndpointType: 'HomeRegion',
      ThrottleConfig: { RateLimit: prod.throttle.requestsPerSecond },
      ScalingConfig: { MaxEnvironments: Math.ceil((prod.throttle.requestsPerSecond * 300) / 64) },
    });
    expect(rendered(only(api, 'AWS::Lambda::WebFunction').FunctionName)).toBe('platform-prod-call-server-eu-west-1');
  });

  test.each([
    [50, 100],
    [1001, 2000],
  ])('a throttle of %d a second is rounded to %d, which Lambda accepts', (requestsPerSecond, rateLimit) => {
    const small = {
      ...prod,
      calls: 'web' as const,
      services: { kind: 'off' as const },
      sandbox: { kind: 'none' as const },
    };
    const stage = defineStage({ ...small, throttle: { requestsPerSecond, burst: 100 } });
    const { ThrottleConfig, ScalingConfig } = only(synthesise(stage).api, 'AWS::Lambda::WebFunctionEndpoint');
    expect(ThrottleConfig.RateLimit).toBe(rateLimit);
    expect(ScalingConfig.MaxEnvironments).toBeLessThanOrEqual(10_000);
  });

  test('has the settings of the function `calls`, and its own', () => {
    const { EnvironmentVariables } = revision.ServiceConfig;
    const variables = Object.fromEntries(
      Object.entries(EnvironmentVariables).map(([name, value]) => [name, rendered(value).replaceAll(/[<>]/g, '')]),
    );
    const shared = Object.entries(environmentOf(api, 'calls')).filter(
      ([name]) => !/^(NODE_COMPILE|POWERTOOLS_SERVICE)/.test(name),
    );
    expect(variables).toMatchObject(Object.fromEntries(shared));
    expect(variables.POWERTOOLS_SERVICE_NAME).toBe('call-server');
    expect(variables).not.toHaveProperty('NODE_COMPILE_CACHE');
    const { gatewayToken, callFunction } = parseAwsConfig(variables);
    expect(gatewayToken).toBe('51af3dc0-da77-11e4-872e-1234567db123');
    expect(callFunction).toMatch(/^callsFunction\w+:callsFunctionCurrentVersion\w+\.Version$/);
  });

  test('has the role of `calls`, with the rights of both functions and that of passing calls on, and no more', () => {
    const [role] = revision.ServiceConfig.ExecutionRoleArn['Fn::GetAtt'];
    expect(api.Resources[role]!.Properties.AssumeRolePolicyDocument.Statement[0].Principal.Service).toBe(
      'lambda.amazonaws.com',
    );
    const wanted: Record<string, Set<string>> = {};
    const add = (allowed: Record<string, string[]>) => {
      for (const [arn, actions] of Object.entries(allowed)) {
        // Each function writes its own log.
        if (!arn.includes('Logs')) wanted[arn] = new Set([...(wanted[arn] ?? []), ...actions]);
      }
    };
    add(policyOf(plain, 'calls').allowed);
    add(policyOf(plain, 'events').allowed);
    add({ 'arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-calls:*': ['lambda:InvokeFunction'] });
    const { allowed } = policyOf(api, 'calls');
    const given = Object.entries(allowed).filter(([arn]) => !arn.includes('Logs'));
    expect(Object.fromEntries(given.map(([arn, actions]) => [arn, [...new Set(actions)].sort()]))).toEqual(
      Object.fromEntries(Object.entries(wanted).map(([arn, actions]) => [arn, [...actions].sort()])),
    );
    expect(Object.keys(allowed).filter((arn) => arn.includes('Logs'))).toHaveLength(2);
  });

  test('logs where the stage says, and its lines count as those of functions', () => {
    const logs = resourcesOf(api, 'AWS::Logs::LogGroup').find(
      ([, { Properties }]) => Properties.LogGroupName === '/aws/lambda/platform-prod-call-server',
    )!;
    expect(logs[1].Properties.RetentionInDays).toBe(prod.logRetentionDays);
    expect(revision.ServiceConfig.TelemetryConfig.LoggingConfig.LogGroup).toEqual({ Ref: logs[0] });
    const counted = resourcesOf(api, 'AWS::Logs::MetricFilter').filter(
      ([, { Properties }]) => Properties.LogGroupName.Ref === logs[0],
    );
    expect(counted.map(([, { Properties }]) => Properties.MetricTransformations[0].MetricName).sort()).toEqual([
      'Failures',
      'ProviderFailures',
    ]);
  });
});

describe('the API', () => {
  const integrations = integrationsOf(api);
  const ofServer = [...integrations].filter(([, { type }]) => type === 'http_proxy');

  test('sends calls, steps and events to the server, and everything else where it went', () => {
    const table: readonly Route[] = routes;
    const keyOf = (operationId: string) => {
      const { method, path } = table.find((route) => route.operationId === operationId)!;
      return `${method.toLowerCase()} ${path}`;
    };
    const served = ['callAgent', 'callLoop', 'listRunSteps', 'putRunStep', 'listRunEvents', 'listWorkspaceEvents'];
    expect(ofServer.map(([key]) => key).sort()).toEqual(served.map(keyOf).sort());
    const others = (all: ReturnType<typeof integrationsOf>) =>
      [...all].filter(([key]) => !served.map(keyOf).includes(key)).map(([key, value]) => [key, value.uri]);
    expect(others(integrations)).toEqual(others(integrationsOf(plain)));
  });

  test.each(ofServer)(
    '%s: every path parameter, the token, and the address and id of the request',
    (key, integration) => {
      const path = key.split(' ')[1]!;
      expect(integration).toMatchObject({
        uri: `https://\${stageVariables.call_server}${path}`,
        responseTransferMode: 'STREAM',
        timeoutInMillis: 305_000,
        httpMethod: key.split(' ')[0]!.toUpperCase(),
      });
      expect(integration).not.toHaveProperty('credentials');
      const { requestParameters } = integration;
      for (const name of pathParameters(path))
        expect(requestParameters[`integration.request.path.${name}`]).toBe(`method.request.path.${name}`);
      expect(rendered(requestParameters['integration.request.header.x-platform-gateway'])).toBe(
        "'51af3dc0-da77-11e4-872e-1234567db123'",
      );
      expect(requestParameters['integration.request.header.x-platform-source']).toBe('context.identity.sourceIp');
      expect(requestParameters['integration.request.header.x-platform-gateway-id']).toBe('context.requestId');
    },
  );

  test('names the endpoint in a variable of its stage, so that a release tries it like versions of functions', () => {
    const { Variables } = only(api, 'AWS::ApiGateway::Stage');
    const [[endpointId]] = resourcesOf(api, 'AWS::Lambda::WebFunctionEndpoint') as [[string, Resource]];
    expect(Variables.call_server).toEqual({ 'Fn::GetAtt': [endpointId, 'DomainName'] });
    expect(only(api, 'Custom::Release').Variables.call_server).toEqual(Variables.call_server);
  });

  test('changed code or settings have another endpoint, and unchanged ones the same', () => {
    const nameIn = (template: Template) => only(template, 'AWS::Lambda::WebFunctionEndpoint').EndpointName;
    const before = nameIn(api);
    expect(before).toMatch(/^r-[0-9a-f]{16}$/);
    expect(nameIn(synthesiseAnew(web).api)).toBe(before);
    expect(nameIn(synthesiseAnew(defineStage({ ...web, settings: { PLATFORM_FEE_PERCENT: '7' } })).api)).not.toBe(
      before,
    );
  });
});

test.each([[{ access: { ranges: ['203.0.113.0/24'] } }], [{ access: { vpcEndpointIds: ['vpce-0123456789abcdef0'] } }]])(
  'a stage that is closed to the internet has no web function: %j',
  (closed) => {
    const off = { services: { kind: 'off' as const }, web: { kind: 'off' as const } };
    expect(() => defineStage({ ...prod, ...off, ...closed, calls: 'web' })).toThrow('must be `functions`');
  },
);

test('the API of a stage with functions has no trace of the server', () => {
  expect(JSON.stringify(plain)).not.toMatch(/call.?server|WebFunction|http_proxy/i);
});
