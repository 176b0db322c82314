import { CfnOutput, Fn, Stack, type StackProps } from 'aws-cdk-lib';
import type { Distribution } from 'aws-cdk-lib/aws-cloudfront';
import type { Construct } from 'constructs';
import { apiExportOf, frontTokenExportOf, type Stage, type WebSettings } from '../config.ts';
import { WebFront } from '../constructs/web-front.ts';

export interface WebStackProps extends StackProps {
  readonly stage: Stage;
  readonly settings: WebSettings;
  /** Folder of the built dashboard. */
  readonly dashboard: string;
  /** Folder of the built documentation site. */
  readonly docs: string;
}

/**
 * CloudFront in front of the API, the dashboard and the documentation. It is deployed after the API: an account that AWS has not verified
 * gets no distribution, but still has the API.
 */
export class WebStack extends Stack {
  readonly distribution: Distribution;

  constructor(scope: Construct, id: string, { stage, settings, dashboard, docs, ...props }: WebStackProps) {
    super(scope, id, props);
    const { url, distribution } = new WebFront(this, 'web', {
      stage,
      settings,
      apiId: Fn.importValue(apiExportOf(stage)),
      token: Fn.importValue(frontTokenExportOf(stage)),
      files: dashboard,
      docs,
    });
    this.distribution = distribution;
    new CfnOutput(this, 'DashboardUrl', { value: `${stage.baseUrl ?? url}/dashboard/` });
  }
}
