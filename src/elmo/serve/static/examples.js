// Example sentences: each set has one word in several senses, grouped by sense.

export const EXAMPLES = {
  bow: [
    "She took a bow before the audience and left the stage.",
    "The actor made a deep bow to the audience.",
    "The archer drew his bow and shot an arrow.",
    "They hunted with a bow and poisoned arrows.",
    "The captain stood at the bow of the ship.",
    "Waves broke over the bow of the boat.",
  ],
  play: [
    "The children play in the garden every day.",
    "The boys play in the street after school.",
    "The team will play in the final on Sunday.",
    "She wrote a play about the war.",
    "He wrote a play about his father.",
  ],
  bank: [
    "The bank lent the company a million dollars.",
    "The bank raised its interest rates in June.",
    "The bank opened a branch in London.",
    "They sat on the bank of the river.",
    "The village lies on the east bank of the Nile.",
    "Trees grow along the bank of the stream.",
  ],
  spring: [
    "The flowers bloom in the spring and summer.",
    "The birds return in the early spring.",
    "He joined the team in the spring of 1998.",
    "Water flows from a spring in the hills.",
    "The river rises from a spring near the village.",
  ],
  fair: [
    "The workers asked for a fair wage.",
    "He did not get a fair trial.",
    "Everyone wants a fair share of the money.",
    "The annual fair is held in the town square.",
    "The fair attracts thousands of visitors.",
  ],
};
