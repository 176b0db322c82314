import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { DOCS_HEADERS, PAGE_HEADERS } from '#core/http/page-headers.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { defineStage } from '#lib/config.ts';
import { API_STACK_FUNCTIONS } from '#lib/functions.ts';
import {
  environmentOf,
  type Resource,
  rendered,
  resourcesOf,
  synthesise,
  type Template,
} from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';

const plain = { ...dev, services: { kind: 'off' } } as const;
const only = (template: Template, type: string): [string, Resource] => {
  const found = resourcesOf(template, type);
  expect(found.map(([id]) => id)).toHaveLength(1);
  return found[0]!;
};

const outputs = ({ Outputs }: Template) => Outputs as Record<string, { Value: unknown; Export?: { Name: string } }>;

describe('the dashboard of a stage', () => {
  const synthesis = synthesise(dev);
  const { app, api, data, services, stacks } = synthesis;
  const web = synthesis.web!;
  const [distributionId, { Properties }] = only(web, 'AWS::CloudFront::Distribution');
  const { Origins: origins, DefaultCacheBehavior: others, CacheBehaviors: behaviors } = Properties.DistributionConfig;
  const [bucketId, bucket] = only(web, 'AWS::S3::Bucket');
  const originOf = ({ TargetOriginId }: { TargetOriginId: string }) =>
    origins.find(({ Id }: { Id: string }) => Id === TargetOriginId);
  const MANAGED = {
    cachingDisabled: '4135ea2d-6df8-44a3-9df3-4b5a84be39ad',
    cachingOptimized: '658327ea-f89d-4fab-a63d-7e88639e58f6',
    allViewerExceptHost: 'b689b0a8-53d0-40ab-baf2-68738e2966ac',
  };

  test('its bucket is private, and read by this distribution alone', () => {
    expect(bucket.Properties.PublicAccessBlockConfiguration).toEqual({
      BlockPublicAcls: true,
      BlockPublicPolicy: true,
      IgnorePublicAcls: true,
      RestrictPublicBuckets: true,
    });
    const [, policy] = only(web, 'AWS::S3::BucketPolicy');
    const statements: { Effect: string; Principal: object; Action: unknown; Condition: unknown }[] =
      policy.Properties.PolicyDocument.Statement;
    const reads = statements.filter(({ Principal }) => JSON.stringify(Principal).includes('cloudfront'));
    expect(reads.flatMap(({ Action }) => Action).sort()).toEqual(['s3:GetObject', 's3:ListBucket']);
    for (const { Condition } of reads) {
      expect(rendered((Condition as Record<string, Record<string, unknown>>).StringEquals!['AWS:SourceArn'])).toBe(
        `arn:aws:cloudfront::111122223333:distribution/<${distributionId}>`,
      );
    }
    const rest = statements.filter((statement) => !reads.includes(statement));
    expect(rest.map(({ Effect }) => Effect)).toEqual(['Deny']);
  });

  test('its paths go to the bucket, with the headers of the local platform', () => {
    expect(behaviors.map(({ PathPattern }: { PathPattern: string }) => PathPattern)).toEqual([
      '/dashboard',
      '/dashboard/*',
      '/docs',
      '/docs/*',
      '/llms.txt',
      '/llms-full.txt',
    ]);
    for (const behavior of behaviors) {
      const origin = originOf(behavior);
      expect(rendered(origin.DomainName)).toBe(`<${bucketId}.RegionalDomainName>`);
      expect(origin).toHaveProperty('OriginAccessControlId');
      expect(behavior).toMatchObject({
        CachePolicyId: MANAGED.cachingOptimized,
        ViewerProtocolPolicy: 'redirect-to-https',
      });
    }
    const policies = resourcesOf(web, 'AWS::CloudFront::ResponseHeadersPolicy');
    const policyOf = (index: number) =>
      policies.find(([id]) => behaviors[index].ResponseHeadersPolicyId.Ref === id)![1] as Resource;
    expect(policies).toHaveLength(2);
    const docsPolicy = policyOf(2).Properties.ResponseHeadersPolicyConfig.SecurityHeadersConfig.ContentSecurityPolicy;
    expect(docsPolicy.ContentSecurityPolicy).toBe(DOCS_HEADERS['content-security-policy']);
    const policy = policyOf(0);
    // The presigned forms of large files lead there.
    const [, { Properties: blobs }] = only(data, 'AWS::S3::Bucket');
    const uploads = `https://${rendered(blobs.BucketName)}.s3.eu-west-1.amazonaws.com`;
    expect(blobs.CorsConfiguration.CorsRules).toEqual([{ AllowedMethods: ['POST'], AllowedOrigins: ['*'] }]);
    const { SecurityHeadersConfig: known, CustomHeadersConfig: custom } = policy.Properties.ResponseHeadersPolicyConfig;
    const headers = Object.fromEntries(
      custom.Items.map(({ Header, Value }: Record<string, string>) => [Header, Value]),
    );
    expect({
      ...headers,
      'content-security-policy': rendered(known.ContentSecurityPolicy.ContentSecurityPolicy).replace(` ${uploads}`, ''),
      ...(known.ContentTypeOptions.Override && { 'x-content-type-options': 'nosniff' }),
    }).toEqual(PAGE_HEADERS);
    expect(known.StrictTransportSecurity).toMatchObject({ AccessControlMaxAgeSec: 31_536_000, Override: true });
  });

  test('everything else goes to the API as it is, and nothing of it is kept', () => {
    expect(others).toMatchObject({
      CachePolicyId: MANAGED.cachingDisabled,
      OriginRequestPolicyId: MANAGED.allViewerExceptHost,
      ViewerProtocolPolicy: 'https-only',
      Compress: false,
    });
    expect([...others.AllowedMethods].sort()).toEqual(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT']);
    const origin = originOf(others);
    const [apiId] = only(api, 'AWS::ApiGateway::RestApi');
    expect(outputs(api).ApiId).toMatchObject({ Value: { Ref: apiId }, Export: { Name: 'platform-dev-api-id' } });
    expect(origin.DomainName['Fn::Join'][1][0]).toEqual({ 'Fn::ImportValue': 'platform-dev-api-id' });
    expect(rendered(origin.DomainName)).toMatch(/\.execute-api\.eu-west-1\.amazonaws\.com$/);
    expect(origin).toMatchObject({
      OriginPath: '/dev',
      CustomOriginConfig: { OriginProtocolPolicy: 'https-only', OriginReadTimeout: 60, OriginKeepaliveTimeout: 60 },
    });
  });

  test('a deployment puts files with their caching times, assets first, and renews what CloudFront has', () => {
    const deployments = resourcesOf(web, 'Custom::CDKBucketDeployment');
    const about = deployments.map(([, { Properties }]) => [
      Properties.DestinationBucketKeyPrefix,
      Properties.SystemMetadata['cache-control'],
      Properties.DistributionPaths,
      Properties.Prune,
      Properties.RetainOnDelete,
    ]);
    expect(about.sort()).toEqual([
      ['dashboard', 'no-cache', ['/dashboard*'], false, false],
      ['dashboard/assets', 'public, max-age=31536000, immutable', undefined, false, false],
      ['docs', 'no-cache', ['/docs*', '/llms*'], false, false],
      ['docs/_astro', 'public, max-age=31536000, immutable', undefined, false, false],
    ]);
    const deploymentTo = (prefix: string) =>
      deployments.find(([, { Properties }]) => Properties.DestinationBucketKeyPrefix === prefix)!;
    for (const [pages, assets] of [
      ['dashboard', 'dashboard/assets'],
      ['docs', 'docs/_astro'],
    ] as const) {
      expect(deploymentTo(pages)[1].DependsOn).toContain(deploymentTo(assets)[0]);
    }
  });

  test('it comes after the API, which stands without it', () => {
    const nameOf = (template: Template) => stacks.find((stack) => stack.template === template)!.name;
    expect(stacks.filter(({ after }) => after.includes(nameOf(web)))).toEqual([]);
    expect(stacks.find(({ template }) => template === web)!.after).toContain(nameOf(api));
    expect(JSON.stringify(api)).not.toMatch(/AWS::CloudFront|BucketDeployment/);
  });

  test('links to the API’s own address lead there, and programs past CloudFront', () => {
    for (const fn of [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS]) {
      const { baseUrl, dashboardUrl, callUrl, frontToken } = parseAwsConfig(environmentOf(api, fn));
      expect(baseUrl).toMatch('.execute-api.eu-west-1.amazonaws.com/dev');
      expect([callUrl, dashboardUrl]).toEqual([baseUrl, undefined]);
      expect(frontToken).toBeTruthy();
    }
    // CloudFront would end calls of programs whose sandbox starts.
    expect(rendered(outputs(api).BaseUrl!.Value)).toMatch('.execute-api.eu-west-1.amazonaws.com/dev');
    expect(rendered(outputs(web).DashboardUrl!.Value)).toBe(`https://<${distributionId}.DomainName>/dashboard/`);
    expect(JSON.stringify(services)).not.toContain('CloudFront');
  });

  test('no finding of cdk-nag is left', () => {
    expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  });

  /** What CloudFront makes of a request at its edge. */
  const atEdge = (behavior: { FunctionAssociations: { FunctionARN: unknown; EventType: string }[] }, event: object) => {
    const [{ FunctionARN, EventType }] = behavior.FunctionAssociations as [(typeof behavior.FunctionAssociations)[0]];
    expect(EventType).toBe('viewer-request');
    const id = rendered(FunctionARN).slice(1).split('.')[0]!;
    const { FunctionCode } = web.Resources[id]!.Properties;
    return runInNewContext(`${FunctionCode}\nhandler(event)`, { event: structuredClone(event) });
  };

  test.each([
    ['/dashboard/', '/dashboard/index.html'],
    ['/dashboard/main/runs/0a1b', '/dashboard/index.html'],
    ['/dashboard/main/agents/reader.py', '/dashboard/index.html'],
    ['/dashboard/theme.js', '/dashboard/theme.js'],
    ['/dashboard/theme.js.br', '/dashboard/index.html'],
    ['/dashboard/assets/main-1a2b.js', '/dashboard/assets/main-1a2b.js'],
    ['/dashboard/assets/gone.js', '/dashboard/assets/gone.js'],
  ])('%s shows %s', (uri, shown) => {
    for (const behavior of behaviors.slice(0, 2)) {
      expect(atEdge(behavior, { request: { uri, headers: {} } }).uri).toBe(shown);
    }
  });

  test.each([
    ['/docs/', '/docs/index.html'],
    ['/docs/calls', '/docs/calls.html'],
    ['/docs/calls', '/docs/calls.md', 'text/markdown, text/html;q=0.5'],
    ['/docs/calls.md', '/docs/calls.md'],
    ['/docs/errors/TIMEOUT', '/docs/errors/TIMEOUT.html'],
    ['/docs/api/callagent', '/docs/api/callagent.html', 'text/markdown'],
    ['/docs/_astro/page.1a2b.js', '/docs/_astro/page.1a2b.js'],
    ['/llms.txt', '/docs/llms.txt'],
    ['/llms-full.txt', '/docs/llms-full.txt'],
  ])('%s of the documentation shows %s', (uri, shown, accept = 'text/html') => {
    expect(atEdge(behaviors[3], { request: { uri, headers: { accept: { value: accept } } } }).uri).toBe(shown);
  });

  test('addresses of the documentation lead to one form, and unknown ones to a page that says so', () => {
    const at = (uri: string) => atEdge(behaviors[3], { request: { uri, headers: {} } });
    expect([at('/docs').statusCode, at('/docs').headers.location.value]).toEqual([308, '/docs/']);
    expect(at('/docs/calls/').headers.location.value).toBe('/docs/calls');
    expect(at('/docs/gone')).toMatchObject({ statusCode: 404, body: expect.stringContaining('href="/docs/"') });
    expect(at('/docs/../secret').statusCode).toBe(404);
  });

  test('the address without its slash leads to the one with it', () => {
    const answer = atEdge(behaviors[0], { request: { uri: '/dashboard', headers: {} } });
    expect([answer.statusCode, answer.headers.location.value]).toEqual([308, '/dashboard/']);
  });

  test('the API learns from CloudFront who asks and by which name, whatever the client says', () => {
    const host = { host: { value: 'x' } };
    const headers = {
      [VIEWER_HEADER]: { value: '198.51.100.66' },
      [FRONT_HOST_HEADER]: { value: 'evil.example' },
      ...host,
    };
    const request = atEdge(others, {
      request: { uri: '/org', headers },
      viewer: { ip: '203.0.113.7' },
      context: { distributionDomainName: 'd0.cloudfront.net' },
    });
    expect(request).toEqual({
      uri: '/org',
      headers: {
        ...host,
        [VIEWER_HEADER]: { value: '203.0.113.7' },
        [FRONT_HOST_HEADER]: { value: 'd0.cloudfront.net' },
      },
    });
    const [{ HeaderName, HeaderValue }] = originOf(others).OriginCustomHeaders;
    expect(HeaderName).toBe(FRONT_HEADER);
    expect(HeaderValue).toEqual({ 'Fn::ImportValue': 'platform-dev-front-token' });
    const token = { 'Fn::Select': [2, { 'Fn::Split': ['/', { Ref: 'AWS::StackId' }] }] };
    expect(outputs(api).FrontToken).toEqual({ Value: token, Export: { Name: 'platform-dev-front-token' } });
  });
});

test('a stage may name a domain, with a certificate of CloudFront’s Region', () => {
  const domain = { name: 'agents.example.org', certificateArn: 'arn:aws:acm:us-east-1:111122223333:certificate/0a1b' };
  const { app, api, web } = synthesise(defineStage({ ...plain, name: 'named', web: { domain } }));
  const [, { Properties }] = only(web!, 'AWS::CloudFront::Distribution');
  expect(Properties.DistributionConfig).toMatchObject({
    Aliases: ['agents.example.org'],
    ViewerCertificate: { AcmCertificateArn: domain.certificateArn, MinimumProtocolVersion: 'TLSv1.2_2021' },
  });
  const { baseUrl, dashboardUrl } = parseAwsConfig(environmentOf(api, 'keys'));
  expect([baseUrl, dashboardUrl]).toEqual(['https://agents.example.org', 'https://agents.example.org/dashboard']);
  expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
  const certificateArn = domain.certificateArn.replace('us-east-1', 'eu-west-1');
  expect(() => defineStage({ ...plain, web: { domain: { ...domain, certificateArn } } })).toThrow(
    'must be the ARN of a certificate of us-east-1',
  );
});

test('without it there is no CloudFront, and links lead to the API', () => {
  const { api, web } = synthesise(defineStage({ ...plain, name: 'bare', web: { kind: 'off' } }));
  expect(web).toBeUndefined();
  expect(JSON.stringify(api)).not.toMatch(/CloudFront|BucketDeployment|AWS::S3::Bucket"/);
  const { baseUrl, callUrl, frontToken, dashboardUrl } = parseAwsConfig(environmentOf(api, 'keys'));
  expect(baseUrl).toMatch('.execute-api.eu-west-1.amazonaws.com/bare');
  expect([callUrl, frontToken, dashboardUrl]).toEqual([undefined, undefined, undefined]);
});

test('the firewall counts clients of CloudFront by their own addresses, and believes CloudFront alone', () => {
  const { api } = synthesise(defineStage({ ...plain, name: 'walled', firewall: { requestsPerFiveMinutes: 3000 } }));
  const [, { Properties }] = only(api, 'AWS::WAFv2::WebACL');
  const rates = Properties.Rules.flatMap(
    ({ Statement }: Record<string, Record<string, object>>) => Statement!.RateBasedStatement ?? [],
  );
  const token = { 'Fn::Select': [2, { 'Fn::Split': ['/', { Ref: 'AWS::StackId' }] }] };
  const isOfFront = {
    ByteMatchStatement: { FieldToMatch: { SingleHeader: { Name: FRONT_HEADER } }, SearchString: token },
  };
  expect(rates).toMatchObject([
    { Limit: 3000, AggregateKeyType: 'IP', ScopeDownStatement: { NotStatement: { Statement: isOfFront } } },
    {
      Limit: 3000,
      AggregateKeyType: 'FORWARDED_IP',
      ForwardedIPConfig: { HeaderName: VIEWER_HEADER, FallbackBehavior: 'MATCH' },
      ScopeDownStatement: isOfFront,
    },
  ]);
});

test('behind a proxy its pages and cookies are of the proxy’s path, and programs go past both', () => {
  const stage = defineStage({ ...plain, name: 'behind', baseUrl: 'https://example.org/agents' });
  const { api, folder } = synthesise(stage);
  const { baseUrl, dashboardUrl, callUrl } = parseAwsConfig(environmentOf(api, 'keys'));
  expect([baseUrl, dashboardUrl]).toEqual(['https://example.org/agents', 'https://example.org/agents/dashboard']);
  expect(callUrl).toMatch('.execute-api.eu-west-1.amazonaws.com/behind');
  const pages = globSync(join(folder, 'asset.*', 'index.html')).map((file) => readFileSync(file, 'utf8'));
  expect(pages.sort()).toEqual([
    '<a href="/agents/docs/calls">',
    '<base href="/agents/dashboard/"><meta name="platform-command" content="platform">',
  ]);
});

test('no stage has one whose API is closed to CloudFront, or links to a name that it did not choose', () => {
  for (const closed of [
    { access: { vpcEndpointIds: ['vpce-0123456789abcdef0'] } },
    { access: { ranges: ['10.20.0.0/16'] } },
    {
      domain: {
        name: 'agents.example.org',
        certificateArn: 'arn:aws:acm:eu-west-1:111122223333:certificate/0a1b',
        mtls: { truststore: 's3://acme/authorities.pem' },
      },
    },
  ]) {
    expect(() => defineStage({ ...plain, ...closed })).toThrow(/must be off: CloudFront[\s\S]*at web/);
    expect(() => defineStage({ ...plain, ...closed, web: { kind: 'off' } })).not.toThrow();
  }
  const domain = { name: 'api.example.org', certificateArn: 'arn:aws:acm:eu-west-1:111122223333:certificate/0a1b' };
  expect(() => defineStage({ ...plain, domain })).toThrow(/must have its own `domain`[\s\S]*at web/);
});
