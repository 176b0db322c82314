import { App, Stack } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { type BackgroundFunctionName, backgroundFunction } from '#core/api/background.ts';
import { routes } from '#core/api/routes.ts';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { FUNCTION_NAMES, type FunctionName, isRaw, type Route } from '#core/http/route.ts';
import { TABLE_NAMES } from '#core/ports/table-rules.ts';
import { defineStage, type Stage } from '#lib/config.ts';
import { RouteApi } from '#lib/constructs/route-api.ts';
import { API_STACK_FUNCTIONS, BLOB_FOLDERS } from '#lib/functions.ts';
import {
  environmentOf,
  functionIdOf,
  policyOf,
  type Resource,
  rendered,
  resourcesOf,
  synthesise,
  type Template,
} from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';
import { everythingAsked } from './everything-asked.ts';

const table: readonly Route[] = routes;
const stages = { dev: synthesise(dev), prod: synthesise(prod) };
/** Stage for tests without services and dashboard, because it is synthesized faster. */
const withoutServices: Stage = { ...dev, services: { kind: 'off' }, web: { kind: 'off' } };

describe.each(Object.entries(stages))('%s', (name, { app, data, api, services, observability }) => {
  test('every finding of cdk-nag is acknowledged', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  test('a stack stays far below the 500 resources that it may have', () => {
    expect(Object.keys(data.Resources).length).toBeLessThan(50);
    expect(Object.keys(observability.Resources).length).toBeLessThan(100);
    // A function counts as five resources, CloudFront with its files as fifteen.
    expect(Object.keys(api.Resources).length).toBeLessThan(225);
    expect(Object.keys(services!.Resources).length).toBeLessThan(75);
  });

  test('no template holds an account id or a key', () => {
    const text = JSON.stringify([data, api, services, observability]);
    expect(text).not.toMatch(/(?<![\w.-])\d{12}(?![\w.-])/);
    expect(text).not.toMatch(/sk_live_|AKIA[A-Z0-9]{16}|SecretString/);
  });

  test("each function's settings are valid", () => {
    for (const fn of FUNCTION_NAMES) {
      const config = parseAwsConfig(environmentOf(api, fn));
      expect(config.logLevel).toBe(name === 'dev' ? 'debug' : 'info');
      expect(config.callUrl).toMatch(`.execute-api.eu-west-1.amazonaws.com/${name}`);
    }
  });
});

describe('API', () => {
  const { api } = stages.prod;
  const [[apiId, { Properties: restApi }]] = resourcesOf(api, 'AWS::ApiGateway::RestApi') as [[string, Resource]];
  // biome-ignore lint/suspicious/noExplicitAny: an operation as API Gateway imports it.
  const byKey = new Map<string, any>(
    Object.entries<object>(restApi.Body.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => [
        `${method === 'x-amazon-apigateway-any-method' ? 'ANY' : method.toUpperCase()} ${path}`,
        operation,
      ]),
    ),
  );

  test('has one method per row, and one per path that answers 405', () => {
    const rows = table.map(({ method, path }) => `${method} ${path}`);
    const others = new Set(table.map(({ path }) => `ANY ${path}`));
    expect([...byKey.keys()].sort()).toEqual([...rows, ...others].sort());
  });

  test.each([
    ...table.map((route) => [route.operationId, `${route.method} ${route.path}`, route] as const),
    ['any other method', 'ANY /health', { fn: 'meta', stream: undefined, operationId: undefined }] as const,
  ])('%s goes to its function', (_, key, { fn, stream, operationId }) => {
    const { 'x-amazon-apigateway-integration': integration, ...operation } = byKey.get(key);
    expect(operation.operationId).toBe(operationId);
    // The platform itself checks keys.
    expect(operation).not.toHaveProperty('security');
    const version = `\${stageVariables.${fn.replaceAll('-', '_')}}`;
    const lambda = `arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-${fn}:${version}`;
    const prefix = 'arn:aws:apigateway:eu-west-1:lambda:path';
    expect(resourcesOf(api, 'AWS::Lambda::Function').map(([, { Properties }]) => Properties.FunctionName)).toContain(
      `platform-prod-${fn}`,
    );
    expect(integration).toMatchObject({ type: 'aws_proxy', httpMethod: 'POST' });
    if (stream) {
      expect(rendered(integration.uri)).toBe(`${prefix}/2021-11-15/functions/${lambda}/response-streaming-invocations`);
      expect(integration).toMatchObject({ responseTransferMode: 'STREAM', timeoutInMillis: 305_000 });
    } else {
      expect(rendered(integration.uri)).toBe(`${prefix}/2015-03-31/functions/${lambda}/invocations`);
      expect(integration).toMatchObject({ responseTransferMode: 'BUFFERED', timeoutInMillis: 29_000 });
    }
  });

  test('describes methods in OpenAPI that API Gateway imports without a warning', () => {
    expect(restApi.Body.openapi).toBe('3.0.1');
    for (const [key, { parameters, responses }] of byKey) {
      const named = parameters.map((parameter: { name: string }) => `{${parameter.name}}`);
      expect(key.match(/\{[^}]+\}/g) ?? []).toEqual(named);
      expect(Object.keys(responses)).toEqual(['200']);
    }
  });

  test.each([
    [
      'prod',
      api,
      {
        'GET /tasks': 1000,
        'GET /health': 100,
        'POST /auth/session': 100,
        'POST /webhooks/{schedule_id}/{secret}': 500,
      },
    ],
    ['dev', stages.dev.api, { 'GET /tasks': 50, 'GET /health': 50, 'POST /webhooks/{schedule_id}/{secret}': 50 }],
  ])('methods that need no key have a part of the rate of %s', (name, template, rates) => {
    const [[, { Properties }]] = resourcesOf(template, 'AWS::ApiGateway::Stage') as [[string, Resource]];
    const [all, ...others] = Properties.MethodSettings;
    expect([all.HttpMethod, all.ResourcePath]).toEqual(['*', '/*']);
    const own = new Map(
      others.map((settings: Record<string, string>) => [
        `${settings.HttpMethod} ${settings.ResourcePath!.slice(1).replaceAll('~1', '/')}`,
        settings,
      ]),
    );
    const open = table.filter(({ auth }) => auth !== 'key' && auth !== 'instance');
    expect([...own.keys()].sort()).toEqual(open.map(({ method, path }) => `${method} ${path}`).sort());
    const { requestsPerSecond, burst } = { dev, prod }[name as 'dev' | 'prod'].throttle;
    for (const settings of others) {
      expect(settings.ThrottlingBurstLimit / settings.ThrottlingRateLimit).toBe(burst / requestsPerSecond);
    }
    for (const [method, rate] of Object.entries(rates)) {
      expect((own.get(method) ?? all).ThrottlingRateLimit).toBe(rate);
    }
  });

  test('a changed method is deployed by a new deployment', () => {
    const deploymentOf = (rows: readonly Route[]): string => {
      const app = new App();
      new RouteApi(new Stack(app, 'test'), 'api', { stage: dev, routes: rows, functions: new Map(), bundles: '' });
      return resourcesOf(app.synth().getStackByName('test').template, 'AWS::ApiGateway::Deployment')[0]![0];
    };
    expect(deploymentOf([...table])).toBe(deploymentOf(table));
    expect(deploymentOf(table.slice(1))).not.toBe(deploymentOf(table));
  });

  test.each(FUNCTION_NAMES)('%s serves rows, either all streamed or none', (fn) => {
    const kinds = new Set(table.filter((route) => route.fn === fn).map((route) => route.stream ?? false));
    expect(kinds.size).toBe(1);
  });

  test('has fewer paths than the default quota of an API', () => {
    const prefixes = table.flatMap(({ path }) => path.split('/').map((_, i, parts) => parts.slice(0, i + 1).join('/')));
    expect(new Set(prefixes).size).toBeLessThan(300);
  });

  test('answers bytes as streams only', () => {
    // Text, such as a page or a document, fits in a buffered answer.
    const isBytes = (body: Route['response'][number]) =>
      isRaw(body) && !body.raw.every((type) => /^text\/|[/+]json$/.test(type));
    const bytes = table.filter((route) => Object.values(route.response).some(isBytes));
    expect(bytes.filter((route) => !route.stream)).toEqual([]);
  });

  test('calls its functions with a role that may call them alone', () => {
    const credentials = [...byKey.values()].map((each) => each['x-amazon-apigateway-integration'].credentials);
    const [roleId] = credentials[0]['Fn::GetAtt'];
    expect(new Set(credentials.map((arn) => rendered(arn)))).toEqual(new Set([`<${roleId}.Arn>`]));
    const { AssumeRolePolicyDocument } = api.Resources[roleId]!.Properties;
    expect(AssumeRolePolicyDocument.Statement).toEqual([
      { Action: 'sts:AssumeRole', Effect: 'Allow', Principal: { Service: 'apigateway.amazonaws.com' } },
    ]);
    const [[, policy], ...others] = resourcesOf(api, 'AWS::IAM::Policy').filter(([, { Properties }]) =>
      Properties.Roles.some(({ Ref }: { Ref: string }) => Ref === roleId),
    ) as [[string, Resource]];
    expect(others).toEqual([]);
    const [{ Action, Resource: arns }, ...more] = policy.Properties.PolicyDocument.Statement;
    expect([Action, more]).toEqual(['lambda:InvokeFunction', []]);
    expect(arns.map((arn: unknown) => rendered(arn)).sort()).toEqual(
      FUNCTION_NAMES.map((fn) => `arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-${fn}:*`).sort(),
    );
  });

  test('outputs the command that makes the first key', () => {
    const { Outputs } = api as { Outputs: Record<string, { Value: unknown }> };
    expect(rendered(Outputs.FirstKey!.Value)).toBe('AWS_REGION=eu-west-1 npm run aws:key -- prod');
  });

  test("keeps API Gateway's own log no longer than the others", () => {
    const [id, { Properties }] = resourcesOf(api, 'AWS::Logs::LogGroup').find(([, log]) =>
      rendered(log.Properties.LogGroupName).startsWith('API-Gateway'),
    )!;
    expect(rendered(Properties.LogGroupName)).toBe(`API-Gateway-Execution-Logs_<${apiId}>/prod`);
    expect(Properties.RetentionInDays).toBe(prod.logRetentionDays);
    const [[, stage]] = resourcesOf(api, 'AWS::ApiGateway::Stage') as [[string, Resource]];
    expect(stage.DependsOn).toContain(id);
  });

  test('logs requests without query and headers, and is throttled', () => {
    const [[, { Properties }]] = resourcesOf(api, 'AWS::ApiGateway::Stage') as [[string, Resource]];
    // Traces would show paths, and the path of a webhook contains its secret.
    expect(Properties.TracingEnabled).toBe(false);
    expect(Properties.AccessLogSetting.Format).not.toMatch(/header|querystring|\$context\.path\b/i);
    expect(Properties.MethodSettings[0]).toMatchObject({
      ThrottlingRateLimit: prod.throttle.requestsPerSecond,
      ThrottlingBurstLimit: prod.throttle.burst,
    });
    for (const settings of Properties.MethodSettings) {
      expect(settings).toMatchObject({ DataTraceEnabled: false, LoggingLevel: 'ERROR' });
    }
  });

  test("answers its own errors in the platform's envelope", () => {
    // biome-ignore lint/suspicious/noExplicitAny: gateway responses as API Gateway imports them.
    const all: [string, any][] = Object.entries(restApi.Body['x-amazon-apigateway-gateway-responses']);
    const answers = all.map(([type, { statusCode, responseParameters, responseTemplates }]) => {
      const { error, metadata } = JSON.parse(responseTemplates['application/json']);
      expect(metadata.request_id).toBe('req_$context.requestId');
      expect(responseParameters).toMatchObject({
        'gatewayresponse.header.Access-Control-Allow-Origin': "'*'",
      });
      if (error.code === 'RATE_LIMITED') {
        expect(responseParameters).toMatchObject({
          'gatewayresponse.header.Retry-After': `'${error.suggested_wait_time}'`,
        });
        expect(error.is_retryable).toBe(true);
      }
      // The function may have completed its work, and clients repeat retryable requests.
      if (Number(statusCode) >= 500) expect(error.is_retryable).toBe(false);
      if (type === 'THROTTLED') {
        expect(responseParameters).toMatchObject({
          'gatewayresponse.header.X-RateLimit-Limit': `'${prod.throttle.requestsPerSecond}'`,
          'gatewayresponse.header.X-RateLimit-Remaining': "'0'",
        });
      }
      expect(error).toMatchObject({ message: expect.any(String), is_retryable: expect.any(Boolean) });
      return [type, `${statusCode} ${error.code}`];
    });
    expect(Object.fromEntries(answers)).toEqual({
      MISSING_AUTHENTICATION_TOKEN: '404 NOT_FOUND',
      ACCESS_DENIED: '403 FORBIDDEN',
      REQUEST_TOO_LARGE: '413 DOCUMENT_TOO_LARGE',
      THROTTLED: '429 RATE_LIMITED',
      INTEGRATION_FAILURE: '429 RATE_LIMITED',
      INTEGRATION_TIMEOUT: '504 TIMEOUT',
      DEFAULT_4XX: '400 INVALID_INPUT',
      DEFAULT_5XX: '500 INTERNAL_ERROR',
    });
  });
});

describe('options of a stage', () => {
  const { app, data, api, observability } = synthesise(everythingAsked);

  test('every finding of cdk-nag is acknowledged', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  test('a custom domain', () => {
    const [[id, { Properties }]] = resourcesOf(api, 'AWS::ApiGateway::DomainName') as [[string, Resource]];
    expect(Properties).toMatchObject({
      DomainName: 'agents.example.org',
      RegionalCertificateArn: everythingAsked.domain!.certificateArn,
      SecurityPolicy: 'TLS_1_2',
    });
    const [[, mapping]] = resourcesOf(api, 'AWS::ApiGateway::BasePathMapping') as [[string, Resource]];
    expect([mapping.Properties.DomainName, mapping.Properties.BasePath]).toEqual([{ Ref: id }, undefined]);
    const { callUrl, baseUrl } = parseAwsConfig(environmentOf(api, 'calls'));
    expect([callUrl, baseUrl]).toEqual(['https://agents.example.org', 'https://platform.example.org']);
  });

  test('costs of a day are watched by a budget that may use the topic of the alarms', () => {
    const [[topic]] = resourcesOf(observability, 'AWS::SNS::Topic') as [[string, Resource]];
    const [[policyId, policy]] = resourcesOf(observability, 'AWS::SNS::TopicPolicy') as [[string, Resource]];
    const [[, budget]] = resourcesOf(observability, 'AWS::Budgets::Budget') as [[string, Resource]];
    expect(budget.Properties.Budget).toMatchObject({ TimeUnit: 'DAILY', BudgetLimit: { Amount: 50, Unit: 'USD' } });
    const [{ Subscribers }] = budget.Properties.NotificationsWithSubscribers;
    expect(Subscribers).toEqual([{ SubscriptionType: 'SNS', Address: { Ref: topic } }]);
    expect(budget.DependsOn).toContain(policyId);
    expect(policy.Properties.PolicyDocument.Statement).toContainEqual(
      expect.objectContaining({
        Principal: { Service: expect.arrayContaining(['budgets.amazonaws.com', 'cloudwatch.amazonaws.com']) },
        Action: 'sns:Publish',
      }),
    );
  });

  test('ceilings of tables and their indexes', () => {
    const tables = resourcesOf(data, 'AWS::DynamoDB::GlobalTable').map(([, { Properties }]) => Properties);
    expect(tables).toHaveLength(TABLE_NAMES.length);
    const read = { ReadOnDemandThroughputSettings: { MaxReadRequestUnits: 12_000 } };
    const write = { WriteOnDemandThroughputSettings: { MaxWriteRequestUnits: 4000 } };
    for (const { Replicas, GlobalSecondaryIndexes, ...table } of tables) {
      expect(table).toMatchObject(write);
      expect(GlobalSecondaryIndexes).toEqual(Array(2).fill(expect.objectContaining(write)));
      expect(Replicas).toEqual([expect.objectContaining(read)]);
      expect(Replicas[0].GlobalSecondaryIndexes).toEqual(Array(2).fill(expect.objectContaining(read)));
    }
    expect(JSON.stringify(stages.prod.data)).not.toContain('OnDemandThroughput');
  });

  test('a firewall in front of the stage of the API', () => {
    const [[id, { Properties }]] = resourcesOf(api, 'AWS::WAFv2::WebACL') as [[string, Resource]];
    const [[, association]] = resourcesOf(api, 'AWS::WAFv2::WebACLAssociation') as [[string, Resource]];
    expect(Properties.Rules[0].Statement.RateBasedStatement).toMatchObject({ Limit: 3000, AggregateKeyType: 'IP' });
    expect(JSON.parse(Properties.CustomResponseBodies.refused.Content).error.code).toBe('RATE_LIMITED');
    expect(association.Properties.WebACLArn).toEqual({ 'Fn::GetAtt': [id, 'Arn'] });
    const [[apiId]] = resourcesOf(api, 'AWS::ApiGateway::RestApi') as [[string, Resource]];
    expect(association.Properties.ResourceArn['Fn::Sub']).toEqual([
      expect.stringMatching(/:\/restapis\/\$\{api\}\/stages\/\$\{stage\}$/),
      { api: { Ref: apiId }, stage: { Ref: expect.stringContaining('Stage') } },
    ]);
  });

  test('e-mail to the operator', () => {
    const [[, { Properties }]] = resourcesOf(observability, 'AWS::SNS::Subscription') as [[string, Resource]];
    expect(Properties).toMatchObject({ Protocol: 'email', Endpoint: 'operator@example.org' });
  });

  test('unknown and invalid members are refused', () => {
    const wrong = { ...prod, domain: { name: 'x y', certificateArn: 'mine' }, alarm: {} } as unknown as typeof prod;
    expect(() => defineStage(wrong)).toThrow(
      /"prod"[\s\S]*"alarm"[\s\S]*domain.name[\s\S]*must be the ARN of a certificate/,
    );
  });
});

describe('functions', () => {
  const { api } = stages.prod;

  test.each(FUNCTION_NAMES)('%s has the defaults of a platform function', (fn) => {
    const { Properties } = api.Resources[functionIdOf(api, fn)]!;
    const { Variables } = Properties.Environment;
    expect(Variables).toMatchObject({ POWERTOOLS_SERVICE_NAME: fn, POWERTOOLS_METRICS_NAMESPACE: 'platform/prod' });
    // Lambda accepts at most 4 KB.
    expect(JSON.stringify(Variables).length).toBeLessThan(4096);
    expect(Properties).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      TracingConfig: { Mode: 'Active' },
    });
    const [logs] = resourcesOf(api, 'AWS::Logs::LogGroup').filter(
      ([id]) => id === Properties.LoggingConfig.LogGroup.Ref,
    );
    expect(logs![1].Properties).toEqual({
      LogGroupName: `/aws/lambda/platform-prod-${fn}`,
      RetentionInDays: 90,
      Tags: expect.anything(),
    });
  });

  test('each has a layer with its compile cache, made for its very code by a function that may change layers only', () => {
    for (const { data, ...synthesis } of Object.values(stages)) {
      const stacks = [synthesis.api, synthesis.compute!, synthesis.services!];
      const functions = stacks.flatMap((stack) =>
        resourcesOf(stack, 'AWS::Lambda::Function').map(([id]) => [stack, id] as const),
      );
      const without = functions.flatMap(([stack, id]) => {
        const { FunctionName, Layers, Environment, Code } = stack.Resources[id]!.Properties;
        if (Layers === undefined || FunctionName === undefined) return [FunctionName];
        const { Properties } = stack.Resources[Layers[0].Ref]!;
        // Lambda may queue the calls of all functions for minutes.
        expect(Properties).toMatchObject({ LayerName: FunctionName, Code: Code.S3Key, ServiceTimeout: '900' });
        expect(FunctionName).toMatch(`-${Properties.Bundle}`);
        expect(Environment.Variables).toMatchObject({
          NODE_COMPILE_CACHE: Properties.Folder,
          NODE_COMPILE_CACHE_PORTABLE: '1',
        });
        return [];
      });
      // These are functions that deployments call, and CDK's own.
      const named = without.filter((fn) => fn !== undefined).map((fn) => fn.replace(/^platform-(dev|prod)-/, ''));
      expect(named.sort()).toEqual(
        ['compile-cache', 'data-version', 'pool-cleaner', 'release', 'services-cleaner'].filter((fn) =>
          named.includes(fn),
        ),
      );
    }
    const layers = 'arn:aws:lambda:eu-west-1:111122223333:layer:platform-prod-*';
    const { '*': _, ...allowed } = policyOf(api, 'compile-cache').allowed;
    expect(Object.fromEntries(Object.entries(allowed).filter(([arn]) => !arn.includes(':logs:')))).toMatchObject({
      [layers]: ['lambda:PublishLayerVersion'],
      [`${layers}:*`]: ['lambda:DeleteLayerVersion'],
    });
    const [[empty]] = resourcesOf(api, 'AWS::Lambda::LayerVersion') as [[string, Resource]];
    expect(parseAwsConfig(environmentOf(api, 'compile-cache')).emptyLayer).toBe(empty);
  });

  test('only calls, downloads and streams of events may run longer than the gateway waits for a buffered answer', () => {
    const timeouts = FUNCTION_NAMES.map((fn) => [fn, api.Resources[functionIdOf(api, fn)]!.Properties.Timeout]);
    expect(Object.fromEntries(timeouts)).toEqual({
      ...Object.fromEntries(FUNCTION_NAMES.map((fn) => [fn, 29])),
      a2a: 305,
      calls: 305,
      events: 305,
      mcp: 305,
      downloads: 60,
    });
  });

  const clocks = API_STACK_FUNCTIONS.map((name) => [name, backgroundFunction(name).everyMinutes] as const);
  test.each(clocks.filter(([, minutes]) => minutes !== undefined))('%s has its own clock', (name, minutes) => {
    const [, { Properties }] = resourcesOf(api, 'AWS::Events::Rule').find(([id]) =>
      id.startsWith(name.replaceAll('-', '')),
    )!;
    const rate = { 1: '1 minute', 1440: '1 day' }[minutes!] ?? `${minutes} minutes`;
    expect(Properties.ScheduleExpression).toBe(`rate(${rate})`);
    expect(Properties.State).toBe('ENABLED');
    expect(Properties.Targets.map((target: { Arn: unknown }) => rendered(target.Arn))).toEqual([
      `<${functionIdOf(api, name)}.Arn>`,
    ]);
  });

  const TABLES = 'arn:aws:dynamodb:eu-west-1:111122223333:table/platform-prod-';
  const BLOBS = 'arn:aws:s3:::platform-prod-111122223333-eu-west-1';
  const VAULTS = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:platform/prod/';
  const SECRETS = `${VAULTS}*`;
  /** Rights of functions that sign messages, and read nothing that users store. */
  const SIGNING = { [`${VAULTS}signing-*`]: ['secretsmanager:GetSecretValue'] };
  const AUTHENTICATE = ['dynamodb:GetItem', 'dynamodb:UpdateItem'];
  const TIMERS = {
    'arn:aws:scheduler:eu-west-1:111122223333:schedule/platform-prod/*': [
      'scheduler:CreateSchedule',
      'scheduler:DeleteSchedule',
    ],
    'arn:aws:iam::111122223333:role/platform-prod-timers-eu-west-1': ['iam:PassRole'],
  };
  const LIMIT = { [`${TABLES}counters`]: ['dynamodb:GetItem', 'dynamodb:UpdateItem'] };
  const FUNCTION = 'arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-';
  /** Rights of functions that open sandboxes on Fargate. */
  const SANDBOXES = {
    [`${FUNCTION}sandbox-dispatch`]: ['lambda:InvokeFunction'],
    [`${FUNCTION}pool-keeper`]: ['lambda:InvokeFunction'],
    [`${BLOBS}/transfers/*`]: ['s3:GetObject', 's3:PutObject'],
  };
  /** Rights of functions that change services through the keeper, which calls ECS. */
  const KEEPER = { [`${FUNCTION}service-keeper`]: ['lambda:InvokeFunction'] };
  /** Rights of functions that run agents, on conditions that the test of data keys has. */
  const DATA_KEYS = { 'arn:aws:kms:eu-west-1:111122223333:key/*': ['kms:GenerateDataKey', 'kms:Decrypt'] };
  const WORKER = {
    'arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-loop-worker': ['lambda:InvokeFunction'],
  };
  const JOURNALS = { [`${BLOBS}/journals/*`]: ['s3:PutObject', 's3:DeleteObject'] };
  const RUN_SCHEDULES = {
    ...WORKER,
    ...JOURNALS,
    ...LIMIT,
    [`${TABLES}main`]: [
      ...AUTHENTICATE,
      'dynamodb:PutItem',
      'dynamodb:DeleteItem',
      'dynamodb:ConditionCheckItem',
      'dynamodb:Query',
    ],
    [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
    [`${TABLES}runs`]: [
      'dynamodb:GetItem',
      'dynamodb:PutItem',
      'dynamodb:UpdateItem',
      'dynamodb:DeleteItem',
      'dynamodb:Query',
    ],
    [BLOBS]: ['s3:ListBucket'],
    [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
    [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject'],
    [SECRETS]: ['secretsmanager:GetSecretValue'],
    ...DATA_KEYS,
    ...SANDBOXES,
    [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
    [`${BLOBS}/layers/*`]: ['s3:GetObject'],
  };
  /** Expected actions by resource, independent of lib/functions.ts, so that no right is granted by accident. */
  const ALLOWED: Record<FunctionName | Exclude<BackgroundFunctionName, 'service-keeper'>, Record<string, string[]>> = {
    meta: {},
    agents: {
      ...LIMIT,
      ...KEEPER,
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'],
      [`${TABLES}runs/index/gsi1`]: ['dynamodb:Query'],
      'arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-install': ['lambda:InvokeFunction'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/bundles/*`]: ['s3:PutObject'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject', 's3:PutObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject'],
      [`${BLOBS}/uploads/*`]: ['s3:GetObject'],
    },
    billing: {
      ...LIMIT,
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:GetItem', 'dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
    },
    a2a: {
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:ConditionCheckItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: [
        'dynamodb:GetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:BatchGetItem',
        'dynamodb:Query',
      ],
      [`${TABLES}runs/index/gsi2`]: ['dynamodb:Query'],
      ...WORKER,
      [`${BLOBS}/journals/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${TABLES}counters`]: [
        'dynamodb:GetItem',
        'dynamodb:UpdateItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/uploads/*`]: ['s3:GetObject'],
      [SECRETS]: ['secretsmanager:GetSecretValue'],
      'arn:aws:kms:eu-west-1:111122223333:key/*': ['kms:GenerateDataKey', 'kms:Decrypt'],
      ...SANDBOXES,
      [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
      [`${BLOBS}/layers/*`]: ['s3:GetObject'],
    },
    calls: {
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:ConditionCheckItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: [
        'dynamodb:GetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      ...WORKER,
      // A replay from a turn reads the journal of its original run.
      [`${BLOBS}/journals/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${TABLES}counters`]: [
        'dynamodb:GetItem',
        'dynamodb:UpdateItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/uploads/*`]: ['s3:GetObject'],
      [SECRETS]: ['secretsmanager:GetSecretValue'],
      'arn:aws:kms:eu-west-1:111122223333:key/*': ['kms:GenerateDataKey', 'kms:Decrypt'],
      ...SANDBOXES,
      [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
      [`${BLOBS}/layers/*`]: ['s3:GetObject'],
    },
    catalog: {
      ...LIMIT,
      [`${TABLES}main`]: AUTHENTICATE,
      [`${TABLES}runs`]: ['dynamodb:GetItem'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
    },
    collector: {
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      [`${BLOBS}/bundles/*`]: ['s3:DeleteObject'],
      [`${BLOBS}/definitions/*`]: ['s3:DeleteObject'],
      [`${BLOBS}/layers/*`]: ['s3:DeleteObject'],
    },
    downloads: {
      ...LIMIT,
      [`${TABLES}main`]: AUTHENTICATE,
      [`${TABLES}runs`]: ['dynamodb:GetItem'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
    },
    events: {
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'],
      [`${TABLES}runs/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs/index/gsi2`]: ['dynamodb:Query'],
      [`${TABLES}counters`]: [
        'dynamodb:GetItem',
        'dynamodb:UpdateItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject'],
    },
    install: {
      ...KEEPER,
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'],
      [`${TABLES}counters`]: ['dynamodb:UpdateItem'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      [`${BLOBS}/layers/*`]: ['s3:GetObject', 's3:PutObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject'],
      ...SANDBOXES,
    },
    keys: {
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}counters`]: [
        'dynamodb:GetItem',
        'dynamodb:UpdateItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
    },
    // It reads the journals that others only write.
    'loop-worker': {
      ...RUN_SCHEDULES,
      [`${BLOBS}/journals/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      'arn:aws:kms:eu-west-1:111122223333:key/*': ['kms:GenerateDataKey', 'kms:Decrypt'],
    },
    reconciler: {
      [`${TABLES}main`]: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
    },
    runs: {
      [`${TABLES}counters`]: ['dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'],
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:BatchGetItem', 'dynamodb:PutItem', 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: [
        'dynamodb:GetItem',
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:ConditionCheckItem',
        'dynamodb:Query',
      ],
      [`${TABLES}runs/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs/index/gsi2`]: ['dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      [`${BLOBS}/journals/*`]: ['s3:DeleteObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:DeleteObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      'arn:aws:lambda:eu-west-1:111122223333:function:platform-prod-loop-worker': ['lambda:InvokeFunction'],
    },
    'schedule-fired': {
      ...RUN_SCHEDULES,
      'arn:aws:sqs:eu-west-1:111122223333:platform-prod-fires': [
        'sqs:ChangeMessageVisibility',
        'sqs:DeleteMessage',
        'sqs:GetQueueAttributes',
        'sqs:GetQueueUrl',
        'sqs:ReceiveMessage',
      ],
    },
    'schedule-sweeper': {
      ...RUN_SCHEDULES,
      ...KEEPER,
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: [
        'dynamodb:GetItem',
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:ConditionCheckItem',
        'dynamodb:Query',
      ],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${TABLES}runs/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs/index/gsi2`]: ['dynamodb:Query'],
    },
    mcp: {
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:ConditionCheckItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: [
        'dynamodb:GetItem',
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [`${TABLES}runs/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs/index/gsi2`]: ['dynamodb:Query'],
      ...WORKER,
      [`${BLOBS}/journals/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${TABLES}counters`]: [
        'dynamodb:GetItem',
        'dynamodb:UpdateItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [SECRETS]: ['secretsmanager:GetSecretValue'],
      ...DATA_KEYS,
      ...TIMERS,
      ...SANDBOXES,
      [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
      [`${BLOBS}/layers/*`]: ['s3:GetObject'],
    },
    schedules: {
      ...LIMIT,
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:BatchGetItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:BatchGetItem', 'dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
      ...TIMERS,
      ...SIGNING,
    },
    secrets: {
      ...KEEPER,
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}counters`]: ['dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:PutItem', 'dynamodb:DeleteItem'],
      [SECRETS]: ['secretsmanager:GetSecretValue', 'secretsmanager:CreateSecret', 'secretsmanager:PutSecretValue'],
      // Tokens of connections.
      ...DATA_KEYS,
    },
    'service-instances': {
      ...LIMIT,
      ...KEEPER,
      [`${TABLES}main`]: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/bundles/*`]: ['s3:GetObject'],
      [`${BLOBS}/layers/*`]: ['s3:GetObject'],
      ...SIGNING,
    },
    services: {
      ...LIMIT,
      ...KEEPER,
      'arn:aws:logs:eu-west-1:111122223333:log-group:/platform/prod/services/*': ['logs:FilterLogEvents'],
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
    },
    sweeper: {
      ...KEEPER,
      ...WORKER,
      [`${TABLES}counters`]: ['dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [`${TABLES}main`]: [
        'dynamodb:GetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: [
        'dynamodb:GetItem',
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:UpdateItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [`${TABLES}runs/index/gsi1`]: ['dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/journals/*`]: ['s3:DeleteObject'],
      [`${BLOBS}/runs/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      [`${BLOBS}/sessions/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
      ...SIGNING,
      'arn:aws:kms:eu-west-1:111122223333:key/*': ['kms:Decrypt'],
    },
    storage: {
      ...LIMIT,
      [`${TABLES}main`]: [
        ...AUTHENTICATE,
        'dynamodb:BatchGetItem',
        'dynamodb:PutItem',
        'dynamodb:DeleteItem',
        'dynamodb:Query',
      ],
      [`${TABLES}runs`]: ['dynamodb:GetItem'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/storage/*`]: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'],
    },
    tasks: {
      ...LIMIT,
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:GetItem'],
    },
    'timer-sweeper': {
      [`${TABLES}main`]: ['dynamodb:GetItem'],
      [`${TABLES}main/index/gsi2`]: ['dynamodb:Query'],
      ...TIMERS,
      '*': ['scheduler:ListSchedules'],
    },
    uploads: {
      ...LIMIT,
      [`${TABLES}main`]: AUTHENTICATE,
      [`${TABLES}runs`]: ['dynamodb:GetItem'],
      [`${BLOBS}/uploads/*`]: ['s3:PutObject'],
    },
    usage: {
      ...LIMIT,
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:BatchGetItem', 'dynamodb:Query'],
      [`${TABLES}runs`]: ['dynamodb:Query', 'dynamodb:BatchGetItem'],
      [`${TABLES}runs/index/gsi2`]: ['dynamodb:Query'],
      [BLOBS]: ['s3:ListBucket'],
      [`${BLOBS}/definitions/*`]: ['s3:GetObject'],
    },
    'usage-writer': {
      [`${TABLES}runs`]: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'],
      [`${TABLES}counters`]: ['dynamodb:GetItem', 'dynamodb:UpdateItem'],
      [`${TABLES}runs/stream/*`]: ['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator'],
      '*': ['dynamodb:ListStreams'],
      'arn:aws:sqs:eu-west-1:111122223333:platform-prod-sums-dead': ['sqs:GetQueueUrl', 'sqs:SendMessage'],
    },
    workspaces: {
      ...LIMIT,
      [`${TABLES}main`]: [...AUTHENTICATE, 'dynamodb:PutItem', 'dynamodb:DeleteItem', 'dynamodb:Query'],
      [`${TABLES}main/index/gsi1`]: ['dynamodb:Query'],
    },
  };

  test.each(FUNCTION_NAMES)('%s gets the names of tables, bucket and secrets only if it may use them', (fn) => {
    const { tablePrefix, bucket, secretPrefix } = parseAwsConfig(environmentOf(api, fn));
    const mayUse = (prefix: string) => Object.keys(ALLOWED[fn]).some((arn) => arn.startsWith(prefix));
    expect([tablePrefix, bucket, secretPrefix].map(Boolean)).toEqual([TABLES, BLOBS, VAULTS].map(mayUse));
  });

  test.each([...FUNCTION_NAMES, ...API_STACK_FUNCTIONS])('%s has exactly the rights listed here', (fn) => {
    const { role, allowed } = policyOf(api, fn);
    expect(role.ManagedPolicyArns ?? []).toEqual([]);
    expect(role.Policies ?? []).toEqual([]);
    const logGroup = api.Resources[functionIdOf(api, fn)]!.Properties.LoggingConfig.LogGroup.Ref;
    expect(allowed).toEqual(
      sorted({
        ...ALLOWED[fn],
        [`<${logGroup}.Arn>`]: ['logs:CreateLogStream', 'logs:PutLogEvents'],
        '*': [...(ALLOWED[fn]['*'] ?? []), 'xray:PutTelemetryRecords', 'xray:PutTraceSegments'],
      }),
    );
  });
});

test('the secret of the payment provider may be read by the functions that speak with it, and is in no template', () => {
  const { app, api } = synthesise({ ...dev, name: 'paid', stripe: { secretName: 'acme/stripe' } });
  const arn = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:acme/stripe-??????';
  const readers = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS].filter((fn) => {
    const isReader = policyOf(api, fn).allowed[arn] !== undefined;
    expect(parseAwsConfig(environmentOf(api, fn)).stripeSecret).toBe(isReader ? 'acme/stripe' : undefined);
    return isReader;
  });
  expect(readers).toEqual(['billing', 'reconciler']);
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  for (const name of ['PLATFORM_STRIPE_KEY', 'PLATFORM_STRIPE_WEBHOOK_SECRET']) {
    expect(() => defineStage({ ...dev, settings: { [name]: 'sk_test_made_up' } })).toThrow('stripe.secretName');
  }
});

test('the secret of the OpenID provider may be read by the function that signs people in, and is in no template', () => {
  const oidc = {
    issuer: 'https://id.example.com/',
    clientId: 'agents',
    domains: ['example.com'],
    secretName: 'acme/oidc',
  };
  const { app, api } = synthesise({ ...withoutServices, name: 'federated', oidc });
  const arn = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:acme/oidc-??????';
  const readers = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS].filter((fn) => {
    const isReader = policyOf(api, fn).allowed[arn] !== undefined;
    expect(parseAwsConfig(environmentOf(api, fn)).oidcSecret).toBe(isReader ? 'acme/oidc' : undefined);
    return isReader;
  });
  expect(readers).toEqual(['keys']);
  const { oidcIssuer, oidcClientId, oidcDomains } = parseAwsConfig(environmentOf(api, 'keys'));
  // The issuer stays as the provider writes it, even with a trailing slash.
  expect([oidcIssuer, oidcClientId, oidcDomains]).toEqual(['https://id.example.com/', 'agents', ['example.com']]);
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  const settings = { PLATFORM_OIDC_CLIENT_SECRET: 'made up' };
  expect(() => defineStage({ ...dev, settings })).toThrow('oidc.secretName');
});

test("the operator's key may be read by the function that takes its orders, and is in no template", () => {
  const { app, api } = synthesise({ ...withoutServices, name: 'operated', operator: { secretName: 'acme/operator' } });
  const arn = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:acme/operator-??????';
  const readers = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS].filter((fn) => {
    const isReader = policyOf(api, fn).allowed[arn] !== undefined;
    expect(parseAwsConfig(environmentOf(api, fn)).operatorSecret).toBe(isReader ? 'acme/operator' : undefined);
    return isReader;
  });
  expect(readers).toEqual(['billing']);
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  const settings = { PLATFORM_OPERATOR_KEY: 'made-up-made-up-made-up-made-up-made-up' };
  expect(() => defineStage({ ...dev, settings })).toThrow('operator.secretName');
});

test('the key of cards may be read by the function that signs them, and is in no template', () => {
  const { app, api } = synthesise({ ...withoutServices, name: 'signed', a2a: { secretName: 'acme/cards' } });
  const arn = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:acme/cards-??????';
  const readers = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS].filter((fn) => {
    const isReader = policyOf(api, fn).allowed[arn] !== undefined;
    expect(parseAwsConfig(environmentOf(api, fn)).cardKeySecret).toBe(isReader ? 'acme/cards' : undefined);
    return isReader;
  });
  expect(readers).toEqual(['a2a']);
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  const settings = { PLATFORM_A2A_KEY_FILE: 'card-key.pem' };
  expect(() => defineStage({ ...dev, settings })).toThrow('a2a.secretName');
});

test("the headers of the operator's collector may be read by the function that sends, and are in no template", () => {
  const collector = { endpoint: 'https://otel.example.com', serviceName: 'agents', attributes: { env: 'prod' } };
  const telemetry = { ...collector, sampler: 'traceidratio', ratio: 0.5, secretName: 'acme/otel' } as const;
  const { app, api } = synthesise({ ...withoutServices, name: 'traced', telemetry });
  const arn = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:acme/otel-??????';
  const all = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS];
  expect(all.filter((fn) => policyOf(api, fn).allowed[arn] !== undefined)).toEqual(['sweeper']);
  const settingsOf = (fn: (typeof all)[number]) => parseAwsConfig(environmentOf(api, fn)).operatorTelemetry;
  expect(all.filter((fn) => settingsOf(fn) !== undefined).sort()).toEqual(['sweeper', 'usage-writer']);
  const { secretName, ...noted } = telemetry;
  expect(JSON.parse(settingsOf('sweeper')!)).toEqual({ ...noted, secretName });
  expect(JSON.parse(settingsOf('usage-writer')!)).toEqual(noted);
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  for (const endpoint of ['https://user:made-up@otel.example.com', 'https://otel.example.com?key=made-up', 'otel']) {
    expect(() => defineStage({ ...dev, telemetry: { endpoint } })).toThrow('telemetry.endpoint');
  }
});

test('an own table of models may be read by the functions that ask models, and nothing else of its bucket', () => {
  const readers = (place: string) => {
    const { api } = synthesise({ ...withoutServices, name: 'models', settings: { PLATFORM_MODELS: place } });
    const arn = 'arn:aws:s3:::tables-of-acme/platform/models.json';
    for (const fn of FUNCTION_NAMES) expect(parseAwsConfig(environmentOf(api, fn)).models).toBe(place);
    return [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS].flatMap((fn) => {
      const { allowed } = policyOf(api, fn);
      expect(Object.keys(allowed).filter((key) => key.includes('tables-of-acme') && key !== arn)).toEqual([]);
      return allowed[arn] === undefined ? [] : [[fn, allowed[arn]]];
    });
  };
  const read = ['s3:GetObject'];
  expect(readers('s3://tables-of-acme/platform/models.json').toSorted()).toEqual([
    ['a2a', read],
    ['calls', read],
    ['loop-worker', read],
    ['mcp', read],
    ['schedule-fired', read],
    ['schedule-sweeper', read],
  ]);
  expect(readers('https://example.com/models.json')).toEqual([]);
  for (const place of ['/var/models.json', 'http://example.com/models.json', 's3://bucket', 's3://bucket/*'])
    expect(() => defineStage({ ...dev, settings: { PLATFORM_MODELS: place } })).toThrow(/PLATFORM_MODELS/);
});

describe('models on Amazon Bedrock', () => {
  const ARN = 'arn:aws:bedrock:eu-central-1:444455556666:application-inference-profile/abc123';
  const settings = (models: Record<string, string>) => ({
    PLATFORM_TRANSPORTS: JSON.stringify({ anthropic: { via: 'bedrock', region: 'eu-central-1', models } }),
  });

  test('may be asked by the functions that ask models, and only those that the stage names', () => {
    const models = {
      'claude-sonnet-5-5': 'eu.anthropic.claude-sonnet-5-5',
      'claude-haiku-4-5': 'anthropic.claude-haiku-4-5-20251001-v1:0',
      'claude-opus-5-5': ARN,
    };
    const { api, compute } = synthesise({ ...withoutServices, name: 'claude', settings: settings(models) });
    const asked = ['bedrock:InvokeModel', 'bedrock:InvokeModelWithResponseStream'];
    const rights = (fn: (typeof FUNCTION_NAMES)[number] | BackgroundFunctionName) =>
      Object.entries(policyOf(api, fn).allowed).filter(([arn, actions]) => /bedrock:/.test(`${arn} ${actions}`));
    const having = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS].filter((fn) => rights(fn).length > 0);
    expect(having.toSorted()).toEqual(['a2a', 'calls', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper']);
    for (const fn of having) {
      expect(Object.fromEntries(rights(fn))).toEqual({
        'arn:aws:bedrock:eu-central-1:111122223333:inference-profile/eu.anthropic.claude-sonnet-5-5': asked,
        'arn:aws:bedrock:*::foundation-model/anthropic.claude-sonnet-5-5': asked,
        'arn:aws:bedrock:eu-central-1::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0': asked,
        [ARN]: asked,
        'arn:aws:bedrock:*::foundation-model/anthropic.*': asked,
      });
    }
    expect(JSON.stringify(compute!.Resources)).not.toContain('bedrock:Invoke');
  });

  test('may be asked by nothing unless the stage says so', () => {
    for (const { template } of stages.prod.stacks) expect(JSON.stringify(template)).not.toContain('bedrock:');
  });

  test('are checked when the stage is read', () => {
    const wrong = settings({ 'claude-sonnet-5-5': 'claude-sonnet-5-5' });
    expect(() => defineStage({ ...dev, settings: wrong })).toThrow(
      /anthropic\.models\.claude-sonnet-5-5: must be the id of one of Anthropic's models on Bedrock[\s\S]*settings\.PLATFORM_TRANSPORTS/,
    );
  });
});

test('only workspaces may send e-mail, only with the address of the stage', () => {
  const { api } = synthesise({ ...withoutServices, name: 'mail', mailFrom: 'platform@example.com' });
  const prefix = 'arn:aws:ses:eu-west-1:111122223333:identity/';
  for (const fn of FUNCTION_NAMES) {
    const { allowed } = policyOf(api, fn);
    const sending = Object.keys(allowed).filter((arn) => allowed[arn]!.some((action) => action.startsWith('ses:')));
    expect(sending).toEqual(fn === 'workspaces' ? [`${prefix}example.com`, `${prefix}platform@example.com`] : []);
  }
  expect(parseAwsConfig(environmentOf(api, 'workspaces')).mailFrom).toBe('platform@example.com');
});

describe('usage', () => {
  const { data, api } = stages.prod;

  test('ends of runs come from the stream of their table, a shard in order, and again until they are counted', () => {
    const tables = resourcesOf(data, 'AWS::DynamoDB::GlobalTable').map(([, { Properties }]) => Properties);
    const streamed = tables.filter(({ StreamSpecification }) => StreamSpecification !== undefined);
    expect(streamed.map(({ TableName, StreamSpecification }) => [TableName, StreamSpecification])).toEqual([
      ['platform-prod-runs', { StreamViewType: 'NEW_AND_OLD_IMAGES' }],
    ]);
    const { Outputs } = data as { Outputs: Record<string, { Value: unknown; Export?: { Name: string } }> };
    expect(Outputs.RunsStream!.Export!.Name).toBe('platform-prod-runs-stream');
    const mappings = resourcesOf(api, 'AWS::Lambda::EventSourceMapping').map(([, { Properties }]) => Properties);
    const mapping = mappings.find(({ StartingPosition }) => StartingPosition !== undefined)!;
    expect(mapping).toMatchObject({
      EventSourceArn: { 'Fn::ImportValue': 'platform-prod-runs-stream' },
      BatchSize: 1000,
      MaximumBatchingWindowInSeconds: 1,
      ParallelizationFactor: 1,
      StartingPosition: 'TRIM_HORIZON',
      // Otherwise events name no shard.
      TumblingWindowInSeconds: 900,
    });
    // Lambda tries again for as long as the stream keeps the records.
    for (const member of ['MaximumRetryAttempts', 'MaximumRecordAgeInSeconds', 'BisectBatchOnFunctionError']) {
      expect(mapping[member]).toBeUndefined();
    }
    const dead = 'arn:aws:sqs:eu-west-1:111122223333:platform-prod-sums-dead';
    expect(rendered(mapping.DestinationConfig.OnFailure.Destination)).toBe(dead);
    expect(JSON.parse(mapping.FilterCriteria.Filters[0].Pattern)).toEqual({
      eventName: ['MODIFY'],
      dynamodb: {
        NewImage: { duration_ms: { N: [{ exists: true }] } },
        OldImage: { duration_ms: { N: [{ exists: false }] } },
      },
    });
  });
});

describe('schedules', () => {
  const { schedules, api } = stages.prod;
  const only = (type: string) => resourcesOf(schedules, type).map(([, { Properties }]) => Properties);

  test('due schedules go to a queue that keeps failed messages', () => {
    const queues = only('AWS::SQS::Queue');
    expect(queues.map(({ QueueName, SqsManagedSseEnabled }) => [QueueName, SqsManagedSseEnabled]).sort()).toEqual([
      ['platform-prod-fires', true],
      ['platform-prod-fires-dead', true],
    ]);
    const fires = queues.find(({ QueueName }) => QueueName === 'platform-prod-fires')!;
    expect(fires.RedrivePolicy.maxReceiveCount).toBe(3);
    const [, worker] = Object.entries(api.Resources).find(([id]) => id === functionIdOf(api, 'schedule-fired'))!;
    expect(fires.VisibilityTimeout).toBe(worker.Properties.Timeout);
    // A 9 MB output takes 255 MB more than the 134 MB of an idle function.
    expect(worker.Properties.MemorySize).toBeGreaterThan(134 + 2 * 255);
    const mappings = resourcesOf(api, 'AWS::Lambda::EventSourceMapping').map(([, mapping]) => mapping);
    const mapping = mappings.find(({ Properties }) => Properties.ScalingConfig !== undefined)!;
    expect(mapping.Properties).toMatchObject({
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      BatchSize: 2,
      ScalingConfig: { MaximumConcurrency: 400 },
    });
    expect(rendered(mapping.Properties.EventSourceArn)).toBe('arn:aws:sqs:eu-west-1:111122223333:platform-prod-fires');
  });

  test('only the schedule group of this account may assume the role, which may only send to the queues', () => {
    expect(only('AWS::Scheduler::ScheduleGroup')).toMatchObject([{ Name: 'platform-prod' }]);
    const [role] = only('AWS::IAM::Role');
    expect(rendered(role.RoleName)).toBe('platform-prod-timers-eu-west-1');
    const [trust] = role.AssumeRolePolicyDocument.Statement;
    expect(trust.Principal).toEqual({ Service: 'scheduler.amazonaws.com' });
    expect(rendered(trust.Condition.StringEquals['aws:SourceAccount'])).toBe('111122223333');
    expect(rendered(trust.Condition.ArnEquals['aws:SourceArn'])).toBe(
      'arn:aws:scheduler:eu-west-1:111122223333:schedule-group/platform-prod',
    );
    const [{ PolicyDocument }] = role.Policies;
    expect(PolicyDocument.Statement).toMatchObject([{ Action: 'sqs:SendMessage', Resource: [{}, {}] }]);
  });
});

describe('data', () => {
  const tableOf = (template: Template, name: string): Resource =>
    resourcesOf(template, 'AWS::DynamoDB::GlobalTable')
      .map(([, resource]) => resource)
      .find(({ Properties }) => Properties.TableName.endsWith(`-${name}`))!;

  test.each(['main', 'runs', 'counters'])('%s is on demand, with both indexes and a TTL', (name) => {
    const { Properties } = tableOf(stages.prod.data, name);
    const key = (pk: string, sk: string) => [
      { AttributeName: pk, KeyType: 'HASH' },
      { AttributeName: sk, KeyType: 'RANGE' },
    ];
    expect(Properties).toMatchObject({
      TableName: `platform-prod-${name}`,
      BillingMode: 'PAY_PER_REQUEST',
      KeySchema: key('pk', 'sk'),
      TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true },
    });
    // A run is written twice and rarely listed.
    const Projection = { ProjectionType: name === 'runs' ? 'KEYS_ONLY' : 'ALL' };
    expect(Properties.GlobalSecondaryIndexes).toEqual([
      { IndexName: 'gsi1', KeySchema: key('gsi1pk', 'gsi1sk'), Projection },
      { IndexName: 'gsi2', KeySchema: key('gsi2pk', 'gsi2sk'), Projection },
    ]);
  });

  test('functions are deployed once their data is known to be of a version that they take', () => {
    for (const [name, { api }] of Object.entries(stages)) {
      const [[check, { Properties }]] = resourcesOf(api, 'Custom::DataVersion') as [[string, Resource]];
      expect(Properties).toMatchObject({ Version: String(DATA_VERSION) });
      expect(rendered(Properties.ServiceToken)).toBe(`<${functionIdOf(api, 'data-version')}.Arn>`);
      for (const fn of [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS]) {
        expect(api.Resources[functionIdOf(api, fn)]!.DependsOn, fn).toContain(check);
      }
      const main = `arn:aws:dynamodb:eu-west-1:111122223333:table/platform-${name}-main`;
      expect(policyOf(api, 'data-version').allowed[main]).toEqual([
        'dynamodb:GetItem',
        'dynamodb:PutItem',
        'dynamodb:Scan',
      ]);
    }
  });

  test('all tables can be restored to one second, and main in prod not be deleted', () => {
    const recovery = { PointInTimeRecoveryEnabled: true, RecoveryPeriodInDays: 35 };
    for (const [name, { data }] of Object.entries(stages)) {
      for (const table of TABLE_NAMES) {
        const { DeletionPolicy, Properties } = tableOf(data, table);
        const [replica] = Properties.Replicas;
        expect(replica.PointInTimeRecoverySpecification).toEqual(recovery);
        expect(replica.DeletionProtectionEnabled ?? false).toBe(name === 'prod' && table === 'main');
        expect(DeletionPolicy).toBe(name === 'prod' ? 'RetainExceptOnCreate' : 'Delete');
      }
    }
  });

  test('blobs are encrypted, private, reached by TLS only, and kept in prod', () => {
    for (const [name, { data }] of Object.entries(stages)) {
      const policies = resourcesOf(data, 'AWS::S3::BucketPolicy').map(([, { Properties }]) => Properties);
      const buckets = resourcesOf(data, 'AWS::S3::Bucket');
      // The second bucket has the access log of the first.
      expect(buckets).toHaveLength(name === 'prod' ? 2 : 1);
      for (const [id, { Properties, DeletionPolicy }] of buckets) {
        expect(DeletionPolicy).toBe(name === 'prod' ? 'RetainExceptOnCreate' : 'Delete');
        expect(Properties.BucketEncryption.ServerSideEncryptionConfiguration).toHaveLength(1);
        expect(Object.values(Properties.PublicAccessBlockConfiguration)).toEqual([true, true, true, true]);
        const { PolicyDocument } = policies.find((policy) => rendered(policy.Bucket) === `<${id}>`);
        expect(PolicyDocument.Statement).toContainEqual(
          expect.objectContaining({ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } }),
        );
      }
    }
  });

  test('old versions, unfinished uploads and expired runs are deleted', () => {
    const [, { Properties }] = resourcesOf(stages.prod.data, 'AWS::S3::Bucket').find(
      ([, bucket]) => bucket.Properties.VersioningConfiguration?.Status === 'Enabled',
    )!;
    expect(rendered(Properties.BucketName)).toBe('platform-prod-111122223333-eu-west-1');
    const rules = Properties.LifecycleConfiguration.Rules;
    expect(rules).toContainEqual({ AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 }, Status: 'Enabled' });
    expect(rules).toContainEqual({
      Prefix: 'runs/',
      ExpirationInDays: 30,
      NoncurrentVersionExpiration: { NoncurrentDays: 1 },
      Status: 'Enabled',
    });
    expect(rules).toContainEqual({
      Prefix: 'uploads/',
      ExpirationInDays: 1,
      NoncurrentVersionExpiration: { NoncurrentDays: 1 },
      Status: 'Enabled',
    });
    // Old versions expire in every folder.
    for (const folder of BLOB_FOLDERS) {
      const rule = rules.find(({ Prefix }: { Prefix?: string }) => Prefix === `${folder}/`);
      expect(rule?.NoncurrentVersionExpiration?.NoncurrentDays, folder).toBeLessThanOrEqual(30);
    }
  });
});

const sorted = (allowed: Record<string, string[]>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(allowed).map(([arn, actions]) => [arn, [...actions].sort()]));
