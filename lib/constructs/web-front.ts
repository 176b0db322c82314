import { readdirSync, readFileSync } from 'node:fs';
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
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';
import { bucketNameOf, functionNameOf, platformNameOf, type Stage, type WebSettings } from '../config.ts';
import { removalPolicyOf } from '../removal.ts';

/**
 * Maximum idle timeout of CloudFront in every account:
 * docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html.
 */
const SILENCE = Duration.seconds(60);
const KEPT_CONNECTION = Duration.seconds(60);
const ASSETS = 'assets';
const INDEX = 'index.html';

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
}

/**
 * One address for dashboard and API: CloudFront serves `/dashboard` from a private bucket, and forwards everything else
 * to the REST API without caching.
 */
export class WebFront extends Construct {
  /** Public address without a trailing slash. */
  readonly url: string;

  readonly #basePath: string;

  constructor(scope: Construct, id: string, { stage, settings, apiId, token, files }: WebFrontProps) {
    super(scope, id);
    const name = `${platformNameOf(stage)}-${Aws.REGION}`;
    this.#basePath = basePathOf(stage);
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
    const pages = {
      origin: S3BucketOrigin.withOriginAccessControl(bucket, {
        // The CDK's default name would be the same in every Region, and names are unique per account.
        originAccessControl: new S3OriginAccessControl(this, 'Access', { originAccessControlName: name }),
        // Without LIST, S3 responds 403 for missing objects.
        originAccessLevels: [AccessLevel.READ, AccessLevel.LIST],
      }),
      options: {
        cachePolicy: CachePolicy.CACHING_OPTIMIZED,
        responseHeadersPolicy: this.#headers(stage, name),
        viewerProtocolPolicy: ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
        functionAssociations: [this.#atRequest('Pages', pagesOf(files, this.#basePath))],
      },
    };
    for (const path of ['/dashboard', '/dashboard/*']) distribution.addBehavior(path, pages.origin, pages.options);
    this.url = `https://${settings.domain?.name ?? distribution.distributionDomainName}`;
    this.#deploy(stage, files, bucket, distribution);
    this.#acknowledge(bucket, settings);
  }

  #atRequest(id: string, code: string) {
    return {
      function: new EdgeFunction(this, id, { code: FunctionCode.fromInline(code), runtime: FunctionRuntime.JS_2_0 }),
      eventType: FunctionEventType.VIEWER_REQUEST,
    };
  }

  /** Sets {@link PAGE_HEADERS}, like the local host. CloudFront accepts some of them only as its own settings. */
  #headers(stage: Stage, name: string): ResponseHeadersPolicy {
    const { 'content-security-policy': policy, 'x-content-type-options': _, ...others } = PAGE_HEADERS;
    // Large files are uploaded there, bypassing the API.
    const bucket = Fn.sub(`https://${bucketNameOf(stage)}.s3.\${AWS::Region}.\${AWS::URLSuffix}`);
    const contentSecurityPolicy = policy.replace("connect-src 'self'", `connect-src 'self' ${bucket}`);
    return new ResponseHeadersPolicy(this, 'Headers', {
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
  #deploy(stage: Stage, files: string, bucket: Bucket, distribution: Distribution): void {
    const logGroup = new LogGroup(this, 'Logs', {
      logGroupName: `/aws/lambda/${functionNameOf(stage, 'dashboard-files')}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    // CloudFront compresses by itself.
    const compressed = ['*.br', '*.gz', '**/*.br', '**/*.gz'];
    const common = { destinationBucket: bucket, prune: false, retainOnDelete: false, logGroup, memoryLimit: 256 };
    const assets = new BucketDeployment(this, 'Assets', {
      ...common,
      sources: [Source.asset(join(files, ASSETS), { exclude: compressed })],
      destinationKeyPrefix: `dashboard/${ASSETS}`,
      cacheControl: [CacheControl.fromString('public, max-age=31536000, immutable')],
    });
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
    this.#acknowledgeRights(bucket, assets.handlerRole.node.scope!);
  }

  /** Returns the single page with its base path, because a proxy may serve it under another path. */
  #index(files: string): string {
    return readFileSync(join(files, INDEX), 'utf8').replace(/<base href="[^"]*"/, `<base href="${this.#basePath}"`);
  }

  /**
   * Acknowledges findings about the CDK's own function that copies files, one per stack: it is not part of the
   * platform, and gets no requests.
   */
  #acknowledgeRights(bucket: Bucket, copier: IConstruct): void {
    const reason = "The CDK's function that copies files at a deployment: its rights on the two buckets are the CDK's.";
    const stack = Stack.of(this);
    const bucketId = stack.getLogicalId(bucket.node.defaultChild as CfnBucket);
    const assets = `cdk-${stack.synthesizer.bootstrapQualifier}-assets-<AWS::AccountId>-<AWS::Region>`;
    const wildcards = [
      ...['GetBucket', 'GetObject', 'List', 'Abort', 'DeleteObject'].map((action) => `Action::s3:${action}*`),
      ...[`arn:<AWS::Partition>:s3:::${assets}/*`, `<${bucketId}.Arn>/*`].map((arn) => `Resource::${arn}`),
      // Invalidations of CloudFront.
      'Resource::*',
    ];
    Validations.of(copier).acknowledge(
      ...wildcards.map((wildcard) => ({ id: `AwsSolutions-IAM5[${wildcard}]`, reason })),
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
const pagesOf = (folder: string, basePath: string): string => `var FILES = ${JSON.stringify(namesIn(folder))};
function handler(event) {
  var request = event.request;
  if (request.uri === '/dashboard') {
    return { statusCode: 308, statusDescription: 'Permanent Redirect', headers: { location: { value: '${basePath}' } } };
  }
  var name = request.uri.slice('/dashboard/'.length);
  if (name.indexOf('${ASSETS}/') !== 0 && FILES.indexOf(name) < 0) request.uri = '/dashboard/${INDEX}';
  return request;
}`;

/** Public path of `/dashboard/`. */
const basePathOf = ({ baseUrl }: Stage): string =>
  `${new URL(baseUrl ?? 'https://host').pathname.replace(/\/$/, '')}/dashboard/`;

const namesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(br|gz)$/.test(entry.name))
    .map(({ name }) => name)
    .sort();
