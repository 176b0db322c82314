import { cpSync, globSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Aws, Duration, Fn, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import {
  AccessLevel,
  AllowedMethods,
  CachePolicy,
  Distribution,
  Function as EdgeFunction,
  FunctionCode,
  FunctionEventType,
  FunctionRuntime,
  HttpVersion,
  OriginProtocolPolicy,
  OriginRequestPolicy,
  PriceClass,
  ResponseHeadersPolicy,
  S3OriginAccessControl,
  SecurityPolicyProtocol,
  ViewerProtocolPolicy,
} from 'aws-cdk-lib/aws-cloudfront';
import { HttpOrigin, S3BucketOrigin } from 'aws-cdk-lib/aws-cloudfront-origins';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { BlockPublicAccess, Bucket, BucketEncryption, type CfnBucket } from 'aws-cdk-lib/aws-s3';
import { BucketDeployment, CacheControl, Source } from 'aws-cdk-lib/aws-s3-deployment';
import { Construct, type IConstruct } from 'constructs';
import { dashboardPage } from '#core/http/dashboard-page.ts';
import { docsLinksAt } from '#core/http/docs-links.ts';
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { DOCS_HEADERS, PAGE_HEADERS } from '#core/http/page-headers.ts';
import { bucketNameOf, functionNameOf, platformNameOf, type Stage, type WebSettings } from '../config.ts';
import { removalPolicyOf } from '../removal.ts';
import { acknowledgeWildcard } from './acknowledge.ts';

/**
 * Maximum idle timeout of CloudFront in every account:
 * docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html.
 */
const SILENCE = Duration.seconds(60);
const KEPT_CONNECTION = Duration.seconds(60);
const ASSETS = 'assets';
const INDEX = 'index.html';
const DOCS_ASSETS = '_astro';
/** CloudFront's limit: docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html. */
const MAX_FUNCTION_BYTES = 10_240;

export interface WebFrontProps {
  readonly stage: Stage;
  readonly settings: WebSettings;
  /** Id of the REST API. */
  readonly apiId: string;
  /** Token by which functions and firewall recognize CloudFront. */
  readonly token: string;
  /**
   * Folder of the built dashboard: `index.html`, files beside it, and `assets/`, whose names contain content hashes.
   */
  readonly files: string;
  /** Folder of the built documentation site: pages as `.html` and `.md`, and `_astro/`, whose names contain content hashes. */
  readonly docs: string;
}

/**
 * One address for dashboard, documentation and API: CloudFront serves `/dashboard` and `/docs` from a private bucket,
 * and forwards everything else to the REST API without caching.
 */
export class WebFront extends Construct {
  /** Public address without a trailing slash. */
  readonly url: string;

  /** Public path of the root, with a trailing slash. */
  readonly #root: string;

  constructor(scope: Construct, id: string, { stage, settings, apiId, token, files, docs }: WebFrontProps) {
    super(scope, id);
    const name = `${platformNameOf(stage)}-${Aws.REGION}`;
    this.#root = rootOf(stage);
    const bucket = new Bucket(this, 'Files', {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      // Each deployment recreates its content.
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const distribution = new Distribution(this, 'Distribution', {
      comment: platformNameOf(stage),
      httpVersion: HttpVersion.HTTP2_AND_3,
      priceClass: PriceClass.PRICE_CLASS_ALL,
      ...(settings.domain && {
        domainNames: [settings.domain.name],
        certificate: Certificate.fromCertificateArn(this, 'Certificate', settings.domain.certificateArn),
        minimumProtocolVersion: SecurityPolicyProtocol.TLS_V1_2_2021,
      }),
      defaultBehavior: {
        origin: new HttpOrigin(`${apiId}.execute-api.${Aws.REGION}.${Aws.URL_SUFFIX}`, {
          originPath: `/${stage.name}`,
          protocolPolicy: OriginProtocolPolicy.HTTPS_ONLY,
          readTimeout: SILENCE,
          keepaliveTimeout: KEPT_CONNECTION,
          // Replaces a header of the same name from the browser.
          customHeaders: { [FRONT_HEADER]: token },
        }),
        allowedMethods: AllowedMethods.ALLOW_ALL,
        cachePolicy: CachePolicy.CACHING_DISABLED,
        originRequestPolicy: OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
        // No redirect: a key sent over http would already have been exposed.
        viewerProtocolPolicy: ViewerProtocolPolicy.HTTPS_ONLY,
        compress: false,
        functionAssociations: [this.#atRequest('Viewer', VIEWER)],
      },
    });
    const origin = S3BucketOrigin.withOriginAccessControl(bucket, {
      // The CDK's default name would be the same in every Region, and names are unique per account.
      originAccessControl: new S3OriginAccessControl(this, 'Access', { originAccessControlName: name }),
      // Without LIST, S3 responds 403 for missing objects.
      originAccessLevels: [AccessLevel.READ, AccessLevel.LIST],
    });
    const pages = {
      cachePolicy: CachePolicy.CACHING_OPTIMIZED,
      responseHeadersPolicy: this.#headers('Headers', name, {
        ...PAGE_HEADERS,
        'content-security-policy': withUploads(PAGE_HEADERS['content-security-policy'], stage),
      }),
      viewerProtocolPolicy: ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
      functionAssociations: [this.#atRequest('Pages', pagesOf(files, this.#root))],
    };
    for (const path of ['/dashboard', '/dashboard/*']) distribution.addBehavior(path, origin, pages);
    const docsPages = {
      ...pages,
      responseHeadersPolicy: this.#headers('DocsHeaders', `${name}-docs`, DOCS_HEADERS),
      functionAssociations: [this.#atRequest('Docs', docsPagesOf(docs, this.#root))],
    };
    for (const path of ['/docs', '/docs/*', '/llms.txt', '/llms-full.txt'])
      distribution.addBehavior(path, origin, docsPages);
    this.url = `https://${settings.domain?.name ?? distribution.distributionDomainName}`;
    this.#deploy(stage, { files, docs: docsAt(docs, this.#root) }, bucket, distribution);
    this.#acknowledge(bucket, settings);
  }

  #atRequest(id: string, code: string) {
    return {
      function: new EdgeFunction(this, id, { code: FunctionCode.fromInline(code), runtime: FunctionRuntime.JS_2_0 }),
      eventType: FunctionEventType.VIEWER_REQUEST,
    };
  }

  /** Sets the headers of the local host. CloudFront accepts some of them only as its own settings. */
  #headers(
    id: string,
    name: string,
    headers: Readonly<Record<keyof typeof PAGE_HEADERS, string>>,
  ): ResponseHeadersPolicy {
    const { 'content-security-policy': contentSecurityPolicy, 'x-content-type-options': _, ...others } = headers;
    return new ResponseHeadersPolicy(this, id, {
      responseHeadersPolicyName: name,
      securityHeadersBehavior: {
        contentSecurityPolicy: { contentSecurityPolicy, override: true },
        contentTypeOptions: { override: true },
        strictTransportSecurity: { accessControlMaxAge: Duration.days(365), override: true },
      },
      customHeadersBehavior: {
        customHeaders: Object.entries(others).map(([header, value]) => ({ header, value, override: true })),
      },
    });
  }

  /** Deploys assets first and removes none: open pages load further ones. */
  #deploy(
    stage: Stage,
    { files, docs }: Pick<WebFrontProps, 'files' | 'docs'>,
    bucket: Bucket,
    distribution: Distribution,
  ): void {
    const logGroup = new LogGroup(this, 'Logs', {
      logGroupName: `/aws/lambda/${functionNameOf(stage, 'dashboard-files')}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    // CloudFront compresses by itself.
    const compressed = ['*.br', '*.gz', '**/*.br', '**/*.gz'];
    const common = { destinationBucket: bucket, prune: false, retainOnDelete: false, logGroup, memoryLimit: 256 };
    const hashed = (id: string, folder: string, destinationKeyPrefix: string) =>
      new BucketDeployment(this, id, {
        ...common,
        sources: [Source.asset(folder, { exclude: compressed })],
        destinationKeyPrefix,
        cacheControl: [CacheControl.fromString('public, max-age=31536000, immutable')],
      });
    const assets = hashed('Assets', join(files, ASSETS), `dashboard/${ASSETS}`);
    const pages = new BucketDeployment(this, 'PageFiles', {
      ...common,
      sources: [
        Source.asset(files, { exclude: [...compressed, INDEX, ASSETS, `${ASSETS}/**`, '.vite', '.vite/**'] }),
        Source.data(INDEX, this.#index(files)),
      ],
      destinationKeyPrefix: 'dashboard',
      cacheControl: [CacheControl.fromString('no-cache')],
      distribution,
      distributionPaths: ['/dashboard*'],
    });
    pages.node.addDependency(assets);
    const docsPages = new BucketDeployment(this, 'DocsFiles', {
      ...common,
      sources: [Source.asset(docs, { exclude: [...compressed, DOCS_ASSETS, `${DOCS_ASSETS}/**`] })],
      destinationKeyPrefix: 'docs',
      cacheControl: [CacheControl.fromString('no-cache')],
      distribution,
      distributionPaths: ['/docs*', '/llms*'],
    });
    docsPages.node.addDependency(hashed('DocsAssets', join(docs, DOCS_ASSETS), `docs/${DOCS_ASSETS}`));
    this.#acknowledgeRights(bucket, assets.handlerRole.node.scope!);
  }

  /** Returns the single page. Its readers installed the command line from the package: few of them have a clone. */
  #index(files: string): string {
    const html = readFileSync(join(files, INDEX), 'utf8');
    return dashboardPage(html, { basePath: `${this.#root}dashboard/`, command: 'platform' });
  }

  /**
   * Acknowledges findings about the CDK's own function that copies files, one per stack: it is not part of the
   * platform, and gets no requests.
   */
  #acknowledgeRights(bucket: Bucket, copier: IConstruct): void {
    const reason = "The CDK's function that copies files at a deployment: its rights on the two buckets are the CDK's.";
    const stack = Stack.of(this);
    const bucketId = stack.getLogicalId(bucket.node.defaultChild as CfnBucket);
    const assets = `cdk-${stack.synthesizer.bootstrapQualifier}-assets-${stack.account}-${stack.region}`;
    acknowledgeWildcard(copier, `arn:${stack.partition}:s3:::${assets}/*`, reason);
    acknowledgeWildcard(copier, `\${${bucketId}.Arn}/*`, reason);
    acknowledgeWildcard(copier, '*', 'Invalidations of CloudFront have no narrower resource.');
    const actions = ['GetBucket', 'GetObject', 'List', 'Abort', 'DeleteObject'].map((action) => `s3:${action}*`);
    Validations.of(copier).acknowledge(
      ...actions.map((action) => ({ id: `AwsSolutions-IAM5[Action::${action}]`, reason })),
      {
        id: 'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]',
        reason,
      },
      { id: 'AwsSolutions-L1', reason: 'The CDK chooses the runtime of its function.' },
    );
  }

  #acknowledge(bucket: Bucket, { domain }: WebSettings): void {
    Validations.of(bucket).acknowledge({
      id: 'AwsSolutions-S1',
      reason: 'Only CloudFront reads it, and all of it is public.',
    });
    Validations.of(this).acknowledge(
      { id: 'AwsSolutions-CFR1', reason: 'Who may use the platform is decided by keys, not by countries.' },
      { id: 'AwsSolutions-CFR2', reason: 'The stage file can enable a firewall in front of the API.' },
      {
        id: 'AwsSolutions-CFR3',
        reason:
          'CloudFront would log whole addresses, and a webhook has its secret there. API Gateway logs every request.',
      },
      {
        id: '@aws-cdk/aws-cloudfront-origins:listBucketSecurityRisk',
        reason: 'No address of the distribution leads to the root of the bucket.',
      },
      ...(domain
        ? []
        : [
            {
              id: 'AwsSolutions-CFR4',
              reason: "CloudFront's own certificate sets its own protocols: name a domain to set them.",
            },
          ]),
    );
  }
}

/** Forwards the client's address as CloudFront sees it, and CloudFront's own name, replacing the client's values. */
const VIEWER = `function handler(event) {
  event.request.headers['${VIEWER_HEADER}'] = { value: event.viewer.ip };
  event.request.headers['${FRONT_HOST_HEADER}'] = { value: event.context.distributionDomainName };
  return event.request;
}`;

/** Maps every address except files to the single page, like the local host (`local/http/dashboard.ts`). */
const pagesOf = (folder: string, root: string): string => `var FILES = ${JSON.stringify(namesIn(folder))};
function handler(event) {
  var request = event.request;
  if (request.uri === '/dashboard') {
    return { statusCode: 308, statusDescription: 'Permanent Redirect', headers: { location: { value: '${root}dashboard/' } } };
  }
  var name = request.uri.slice('/dashboard/'.length);
  if (name.indexOf('${ASSETS}/') !== 0 && FILES.indexOf(name) < 0) request.uri = '/dashboard/${INDEX}';
  return request;
}`;

/**
 * Maps addresses of pages to files, and to their Markdown for readers that ask for it, like the local host
 * (`local/http/docs.ts`). Pages of the API reference are not listed, because a function has little room.
 */
function docsPagesOf(folder: string, root: string): string {
  const names = globSync('**/*.html', { cwd: folder }).map((file) =>
    file.replaceAll('\\', '/').slice(0, -'.html'.length),
  );
  const listed = names.filter((name) => !name.startsWith('api/') && name !== '404').sort();
  const code = `var PAGES = ${JSON.stringify(listed)};
function answer(status, text, headers) {
  return { statusCode: status, statusDescription: text, headers: headers };
}
function handler(event) {
  var request = event.request;
  if (request.uri.indexOf('/llms') === 0) { request.uri = '/docs' + request.uri; return request; }
  var name = request.uri.slice('/docs/'.length);
  var isSlashed = /.\\/$/.test(name);
  if (request.uri === '/docs' || isSlashed) {
    return answer(308, 'Permanent Redirect', { location: { value: '${root}docs/' + name.replace(/\\/+$/, '') } });
  }
  if (/\\.[\\w-]+$/.test(name)) return request;
  var isListed = PAGES.indexOf(name || 'index') >= 0;
  if (!isListed && name.indexOf('api/') !== 0) {
    var page = answer(404, 'Not Found', { 'content-type': { value: 'text/html; charset=utf-8' } });
    page.body = '<!doctype html><title>Not found</title><p>There is no such page. <a href="${root}docs/">Documentation</a>';
    return page;
  }
  var accept = request.headers.accept ? request.headers.accept.value : '';
  var isMarkdown = isListed && name !== 'api' && /(^|,)\\s*text\\/markdown\\b/i.test(accept);
  request.uri = '/docs/' + (name || 'index') + (isMarkdown ? '.md' : '.html');
  return request;
}`;
  if (Buffer.byteLength(code) > MAX_FUNCTION_BYTES) {
    throw new Error(`The documentation has too many pages for a function of CloudFront: ${listed.length}.`);
  }
  return code;
}

/** Returns a folder of the documentation whose links begin with the public path. */
function docsAt(folder: string, root: string): string {
  if (root === '/') return folder;
  const copy = mkdtempSync(join(tmpdir(), 'docs-site-'));
  cpSync(folder, copy, { recursive: true });
  for (const name of globSync('**/*.html', { cwd: copy })) {
    const file = join(copy, name);
    writeFileSync(file, docsLinksAt(readFileSync(file, 'utf8'), root));
  }
  return copy;
}

/** Allows pages to upload large files, which bypass the API. */
const withUploads = (policy: string, stage: Stage): string =>
  policy.replace(
    "connect-src 'self'",
    `connect-src 'self' ${Fn.sub(`https://${bucketNameOf(stage)}.s3.\${AWS::Region}.\${AWS::URLSuffix}`)}`,
  );

const rootOf = ({ baseUrl }: Stage): string => `${new URL(baseUrl ?? 'https://host').pathname.replace(/\/$/, '')}/`;

const namesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(br|gz)$/.test(entry.name))
    .map(({ name }) => name)
    .sort();
