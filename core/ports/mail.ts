export interface Message {
  readonly to: string;
  readonly subject: string;
  /** Plain text. */
  readonly text: string;
}

/** E-mail to one person. */
export interface Mail {
  /** Returns false if no e-mail is configured. Throws if the message was not accepted. */
  send(message: Message): Promise<boolean>;
}

/** For hosts without e-mail: the caller shows the text to the user instead. */
export const noMail: Mail = { send: async () => false };
