import { Fn } from 'aws-cdk-lib';
import type { IStage } from 'aws-cdk-lib/aws-apigateway';
import { CfnWebACL, CfnWebACLAssociation } from 'aws-cdk-lib/aws-wafv2';
import { Construct } from 'constructs';
import { FRONT_HEADER, VIEWER_HEADER } from '#core/http/front-headers.ts';
import { platformNameOf, type Stage } from '../config.ts';

export interface FirewallProps {
  readonly stage: Stage;
  readonly requestsPerFiveMinutes: number;
  /** Deployed stage to protect. */
  readonly apiStage: IStage;
  /** CloudFront's token: its requests are counted by the address of the client. @default - no CloudFront */
  readonly frontToken?: string;
}

/**
 * A web ACL in front of a REST API's stage. It blocks addresses that send too many requests, or that AWS lists as
 * malicious. No rule inspects bodies, because agents may receive any text.
 */
export class Firewall extends Construct {
  constructor(scope: Construct, id: string, { stage, requestsPerFiveMinutes, apiStage, frontToken }: FirewallProps) {
    super(scope, id);
    const visibility = (metricName: string) => ({
      metricName: `${platformNameOf(stage)}-${metricName}`,
      cloudWatchMetricsEnabled: true,
      sampledRequestsEnabled: false,
    });
    const acl = new CfnWebACL(this, 'Acl', {
      name: platformNameOf(stage),
      scope: 'REGIONAL',
      defaultAction: { allow: {} },
      visibilityConfig: visibility('firewall'),
      // Response in the platform's error envelope, instead of WAF's own.
      customResponseBodies: { refused: { contentType: 'APPLICATION_JSON', content: REFUSED } },
      rules: [
        {
          name: 'too-many-requests',
          priority: 0,
          action: { block: { customResponse: { responseCode: 429, customResponseBodyKey: 'refused' } } },
          statement: {
            rateBasedStatement: {
              limit: requestsPerFiveMinutes,
              evaluationWindowSec: 300,
              aggregateKeyType: 'IP',
              ...(frontToken && { scopeDownStatement: { notStatement: { statement: isOfFront(frontToken) } } }),
            },
          },
          visibilityConfig: visibility('too-many-requests'),
        },
        ...(frontToken === undefined
          ? []
          : [
              {
                name: 'too-many-requests-by-cloudfront',
                priority: 2,
                action: { block: { customResponse: { responseCode: 429, customResponseBodyKey: 'refused' } } },
                statement: {
                  rateBasedStatement: {
                    limit: requestsPerFiveMinutes,
                    evaluationWindowSec: 300,
                    aggregateKeyType: 'FORWARDED_IP',
                    forwardedIpConfig: { headerName: VIEWER_HEADER, fallbackBehavior: 'MATCH' },
                    scopeDownStatement: isOfFront(frontToken),
                  },
                },
                visibilityConfig: visibility('too-many-requests-by-cloudfront'),
              },
            ]),
        {
          name: 'bad-addresses',
          priority: 1,
          overrideAction: { none: {} },
          statement: {
            managedRuleGroupStatement: { vendorName: 'AWS', name: 'AWSManagedRulesAmazonIpReputationList' },
          },
          visibilityConfig: visibility('bad-addresses'),
        },
      ],
    });
    new CfnWebACLAssociation(this, 'Association', {
      webAclArn: acl.attrArn,
      // The reference makes CloudFormation wait for the stage.
      resourceArn: Fn.sub(`arn:\${AWS::Partition}:apigateway:\${AWS::Region}::/restapis/\${api}/stages/\${stage}`, {
        api: apiStage.restApi.restApiId,
        stage: apiStage.stageName,
      }),
    });
  }
}

const isOfFront = (token: string): CfnWebACL.StatementProperty => ({
  byteMatchStatement: {
    fieldToMatch: { singleHeader: { Name: FRONT_HEADER } },
    positionalConstraint: 'EXACTLY',
    searchString: token,
    textTransformations: [{ priority: 0, type: 'NONE' }],
  },
});

/** The body has no request id, because WAF cannot insert one. */
const REFUSED = JSON.stringify({
  error: {
    code: 'RATE_LIMITED',
    message: 'Too many requests come from your address: wait five minutes and try again.',
    is_retryable: true,
    suggested_wait_time: 300,
  },
  metadata: {},
});
