import { Duration, Stack, Validations } from 'aws-cdk-lib';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import {
  AllowedMethods,
  CachePolicy,
  Distribution,
  Function as EdgeFunction,
  FunctionCode,
  FunctionEventType,
  FunctionRuntime,
  HttpVersion,
  KeyValueStore,
  OriginProtocolPolicy,
  OriginRequestPolicy,
  SecurityPolicyProtocol,
  ViewerProtocolPolicy,
} from 'aws-cdk-lib/aws-cloudfront';
import { HttpOrigin } from 'aws-cdk-lib/aws-cloudfront-origins';
import { CloudFrontTarget } from 'aws-cdk-lib/aws-route53-targets';
import { Construct } from 'constructs';
import { FRONT_HEADER, FRONT_HOST_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { addDomainRecord } from './domain-record.ts';

/** CloudFront's longest idle timeout in every account. */
const SILENCE = Duration.seconds(60);
/** Errors that CloudFront would otherwise keep and send to other callers. */
const KEPT_ERRORS = [404, 414, 500, 501, 502, 503, 504];

/** A cell: the stage whose `cell` is this letter. */
export interface CellProps {
  /** Host of its API: the name in `domain` of the stage, or `<id>.execute-api.<region>.amazonaws.com`. No token. */
  readonly host: string;
  /**
   * First part of the path: `/` and the name of the stage for API Gateway's own host. No token.
   *
   * @default - none, as for a custom domain
   */
  readonly path?: string | undefined;
  /**
   * Output `FrontToken` of its stack `api`, by which the cell recognizes the router: requests then count against the address of
   * their client.
   *
   * @default - requests without a key count against the addresses of CloudFront
   */
  readonly frontToken?: string | undefined;
}

/** The address of all cells. */
export interface CellRouterProps {
  /** Cells by their letters. */
  readonly cells: Readonly<Record<string, CellProps>>;
  /** Letter of the cell for requests that name no other: the oldest one. */
  readonly firstCell: string;
  /**
   * Whether workspaces have moved between the cells: the directory then has hashes of keys and tokens that still have the
   * letter of their old cell, and each of them is looked up.
   *
   * @default false
   */
  readonly hasMoved?: boolean | undefined;
  /**
   * Custom domain; its certificate is in us-east-1.
   *
   * @default - a name of CloudFront
   */
  readonly domain?:
    | {
        readonly name: string;
        readonly certificateArn: string;
        readonly hostedZoneId?: string | undefined;
      }
    | undefined;
}

/**
 * One address for the APIs of several stages (docs/cells.md). A CloudFront Function reads the letter of the cell in keys and
 * in addresses with tokens. Requests without either find the cell of their org in a KeyValueStore.
 */
export class CellRouter extends Construct {
  readonly distribution: Distribution;
  /** The directory: slugs of orgs, and hashes of moved keys and tokens -> letters of their cells. */
  readonly directory: KeyValueStore;

  constructor(scope: Construct, id: string, { cells, firstCell, hasMoved = false, domain }: CellRouterProps) {
    super(scope, id);
    const problems = problemsOf(cells, firstCell);
    if (problems.length > 0)
      throw new Error(`the cell router is invalid:\n${problems.map((each) => `✖ ${each}`).join('\n')}`);
    const first = cells[firstCell]!;
    this.directory = new KeyValueStore(this, 'Directory', { comment: 'Orgs and the letters of their cells' });
    const route = new EdgeFunction(this, 'Route', {
      code: FunctionCode.fromInline(routeOf(cells, firstCell, hasMoved)),
      runtime: FunctionRuntime.JS_2_0,
      keyValueStore: this.directory,
    });
    this.distribution = new Distribution(this, 'Distribution', {
      comment: `${Stack.of(this).stackName}: cells ${Object.keys(cells).sort().join(', ')}`,
      httpVersion: HttpVersion.HTTP2_AND_3,
      ...(domain && {
        domainNames: [domain.name],
        certificate: Certificate.fromCertificateArn(this, 'Certificate', domain.certificateArn),
        minimumProtocolVersion: SecurityPolicyProtocol.TLS_V1_2_2021,
      }),
      errorResponses: KEPT_ERRORS.map((httpStatus) => ({ httpStatus, ttl: Duration.seconds(0) })),
      defaultBehavior: {
        origin: new HttpOrigin(first.host, {
          protocolPolicy: OriginProtocolPolicy.HTTPS_ONLY,
          readTimeout: SILENCE,
          keepaliveTimeout: SILENCE,
        }),
        allowedMethods: AllowedMethods.ALLOW_ALL,
        cachePolicy: CachePolicy.CACHING_DISABLED,
        originRequestPolicy: OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
        viewerProtocolPolicy: ViewerProtocolPolicy.HTTPS_ONLY,
        compress: false,
        functionAssociations: [{ function: route, eventType: FunctionEventType.VIEWER_REQUEST }],
      },
    });
    if (domain?.hostedZoneId) {
      addDomainRecord(
        this,
        { name: domain.name, hostedZoneId: domain.hostedZoneId },
        new CloudFrontTarget(this.distribution),
      );
    }
    Validations.of(this).acknowledge(
      { id: 'AwsSolutions-CFR1', reason: 'Who may use the platform is decided by keys, not by countries.' },
      { id: 'AwsSolutions-CFR2', reason: 'Each stage can enable a firewall in front of its API.' },
      {
        id: 'AwsSolutions-CFR3',
        reason:
          'CloudFront would log whole addresses, and a webhook has its secret there. Each cell logs its requests.',
      },
      ...(domain ? [] : [{ id: 'AwsSolutions-CFR4', reason: "CloudFront's own certificate sets its own protocols." }]),
    );
  }
}

function problemsOf(cells: CellRouterProps['cells'], firstCell: string): string[] {
  return [
    ...Object.keys(cells).flatMap((letter) =>
      /^[a-z]$/.test(letter) ? [] : [`cells: "${letter}" must be one letter, a to z`],
    ),
    ...Object.entries(cells).flatMap(([letter, { host, path = '/x' }]) => [
      ...(/^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(host)
        ? []
        : [`cells.${letter}.host must be the name of a host, without https://`]),
      ...(/^(\/[\w-]+)+$/.test(path) ? [] : [`cells.${letter}.path must begin with a slash, and not end with one`]),
    ]),
    ...(Object.hasOwn(cells, firstCell) ? [] : [`firstCell must be one of ${Object.keys(cells).sort().join(', ')}`]),
  ];
}

/** Number of characters of the keys of a user or an agent, a service and a run, after their prefix and the letter. */
const KEY_LENGTHS = [50, 72, 93];
/** Numbers of characters of tokens after the letter: those of events are longer. */
const TOKEN_LENGTHS = '43,44';

/**
 * Returns the code of the function. The letter of a key proves nothing: the cell checks the key. A cell trusts no header
 * about the viewer without its own front's token, so those of the viewer are removed. Cookies are, too: people sign in
 * at the address of their cell, and no other cell may see the session.
 */
const routeOf = (cells: CellRouterProps['cells'], firstCell: string, hasMoved: boolean): string => `${
  hasMoved ? "import crypto from 'crypto';\n" : ''
}import cf from 'cloudfront';
const CELLS = ${JSON.stringify(cells)};
const KEY = /^[Bb]earer +(sk_(?:live|agent)_([a-z])(?:${KEY_LENGTHS.map((length) => `[0-9A-Za-z]{${length}}`).join('|')}))$/;
const TOKEN = /^\\/(?:webhooks\\/[\\w-]+|invites|auth\\/approvals|public\\/shares|public\\/chats)\\/(([a-z])[\\w-]{${TOKEN_LENGTHS}})(?:\\/|$)/;
const ORG = /^\\/(?:public\\/agents\\/)?([a-z0-9][a-z0-9-]{0,49})\\/[^/]+\\/[^/]/;
async function listed(name, otherwise) {
  try {
    return await cf.kvs().get(name);
  } catch (error) {
    return otherwise;
  }
}
async function letterOf(request) {
  const authorization = request.headers.authorization ? request.headers.authorization.value : '';
  const named = KEY.exec(authorization) || TOKEN.exec(request.uri);
  if (named) return ${hasMoved ? "listed(crypto.createHash('sha256').update(named[1]).digest('hex'), named[2])" : 'named[2]'};
  const org = ORG.exec(request.uri);
  return org ? listed(org[1], '${firstCell}') : '${firstCell}';
}
async function handler(event) {
  const request = event.request;
  request.cookies = {};
  for (const name of ${JSON.stringify([FRONT_HEADER, VIEWER_HEADER, FRONT_HOST_HEADER])}) delete request.headers[name];
  const letter = await letterOf(request);
  const cell = Object.prototype.hasOwnProperty.call(CELLS, letter) ? CELLS[letter] : CELLS['${firstCell}'];
  if (cell.frontToken) {
    request.headers['${FRONT_HEADER}'] = { value: cell.frontToken };
    request.headers['${VIEWER_HEADER}'] = { value: event.viewer.ip };
  }
  request.uri = (cell.path || '') + request.uri;
  cf.updateRequestOrigin({ domainName: cell.host });
  return request;
}`;
