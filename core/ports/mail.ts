export interface Message {
  readonly to: string;
  readonly subject: string;
  /** Plain text. */
  readonly text: string;
}

/** E-mail to one person. */
export interface Mail {
  /** False where no e-mail is set up. Throws when it was not taken. */
  send(message: Message): Promise<boolean>;
}

/** Where no e-mail is set up: what it would have said is shown to whoever wanted it sent. */
export const noMail: Mail = { send: async () => false };
