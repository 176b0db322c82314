import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';
import type { Mail, Message } from '#core/ports/mail.ts';
import { mapThrottlingErrors } from './tables/throttles.ts';

/** {@link Mail} over SES, from a verified identity. The function's role needs `ses:SendEmail` for it. */
export class SesMail implements Mail {
  readonly #client: SESv2Client;
  readonly #from: string;

  constructor(client: SESv2Client, from: string) {
    this.#client = client;
    this.#from = from;
  }

  async send({ to, subject, text }: Message): Promise<boolean> {
    await this.#client.send(
      new SendEmailCommand({
        FromEmailAddress: this.#from,
        Destination: { ToAddresses: [to] },
        Content: { Simple: { Subject: { Data: subject }, Body: { Text: { Data: text } } } },
      }),
    );
    return true;
  }
}

export const createSesMail = (from: string): Mail => new SesMail(mapThrottlingErrors(new SESv2Client()), from);
